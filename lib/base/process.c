/* Processes; see process.h. */
#include "base/process.h"

#include <inttypes.h>
#include <unistd.h>

void smoe_process_place(char place[SMOE_PROCESS_PLACE]) {
    char boot[64] = "?", space[64] = "?";
    FILE *in = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (in && !fgets(boot, sizeof boot, in)) boot[0] = '\0';
    if (in) fclose(in);
    ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    if (n > 0) space[n] = '\0';
    snprintf(place, SMOE_PROCESS_PLACE, "%.*s %s", (int)strcspn(boot, "\n"), boot, space);
}

uint64_t smoe_process_began(pid_t pid) {
    char name[64], text[1024], state = 'X';
    uint64_t start = 0;
    snprintf(name, sizeof name, "/proc/%ld/stat", (long)pid);
    FILE *in = pid > 0 ? fopen(name, "re") : NULL;
    size_t size = in ? fread(text, 1, sizeof text - 1, in) : 0;
    if (in) fclose(in);
    text[size] = '\0';
    /* behind the name of the program: the state, and as the 20th number the start */
    const char *at = strrchr(text, ')');
    if (!at || sscanf(at + 1, " %c", &state) != 1 || state == 'Z' || state == 'X') return 0;
    for (int i = 0; at && i < 20; i++) at = strchr(at + 1, ' ');
    return at && sscanf(at, "%" SCNu64, &start) == 1 ? start : 0;
}
