/* Processes; see process.h. */
#include "base/process.h"

#include <inttypes.h>
#include <unistd.h>

const char *smoe_process_read(const char *path, char *buf, size_t size) {
    FILE *in = fopen(path, "re");
    buf[in ? fread(buf, 1, size - 1, in) : 0] = '\0';
    if (in) fclose(in);
    return buf;
}

void smoe_process_place(char place[SMOE_PROCESS_PLACE]) {
    char boot[64], space[64] = "?";
    smoe_process_read("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    if (!*boot) strcpy(boot, "?");
    ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    if (n > 0) space[n] = '\0';
    snprintf(place, SMOE_PROCESS_PLACE, "%.*s %s", (int)strcspn(boot, "\n"), boot, space);
}

uint64_t smoe_process_began(pid_t pid) {
    char name[64], text[1024], state = 'X';
    uint64_t start = 0;
    snprintf(name, sizeof name, "/proc/%ld/stat", (long)pid);
    if (pid <= 0) return 0;
    smoe_process_read(name, text, sizeof text);
    /* behind the name of the program: the state, and as the 20th number the start */
    const char *at = strrchr(text, ')');
    if (!at || sscanf(at + 1, " %c", &state) != 1 || state == 'Z' || state == 'X') return 0;
    for (int i = 0; at && i < 20; i++) at = strchr(at + 1, ' ');
    return at && sscanf(at, "%" SCNu64, &start) == 1 ? start : 0;
}
