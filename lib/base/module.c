/* Modules; see module.h. */
#include "base/module.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <unistd.h>

/* Where the program is, or the shared library that this is a part of. A program is known to dladdr
 * by what it was called, which need not be its place. */
static const char *own_folder(char file[PATH_MAX]) {
    static const char here;
    Dl_info info;
    ssize_t n;
    if (dladdr(&here, &info) && info.dli_fname && strstr(info.dli_fname, ".so"))
        n = snprintf(file, PATH_MAX, "%s", info.dli_fname);
    else
        n = readlink("/proc/self/exe", file, PATH_MAX - 1);
    file[n < 0 || n >= PATH_MAX ? 0 : n] = '\0';
    return dirname(file);
}

smoe_module_found smoe_module_load(const char *name, const char *entry, bool global,
                                   void (**function)(void), smoe_err *err) {
    static const char *const places[] = {"%s/smoe_%s.so", "%s/../lib/smoe/smoe_%s.so",
                                         "%s/smoe/smoe_%s.so"};
    char own[PATH_MAX], path[PATH_MAX + 64];
    const char *given = getenv("SMOE_MODULES"), *folder = given ? given : own_folder(own);
    size_t i = 0, count = given ? 1 : SMOE_COUNT(places);
    for (; i < count; i++) {
        snprintf(path, sizeof path, places[i], folder, name);
        if (!access(path, F_OK)) break;
    }
    if (i == count) return SMOE_MODULE_MISSING;
    void *module = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!module) return smoe_fail(err, SMOE_RUNTIME, "%s", dlerror()), SMOE_MODULE_BROKEN;
    *(void **)function = dlsym(module, entry);
    if (*function) return SMOE_MODULE_HERE;
    smoe_fail(err, SMOE_RUNTIME, "%s: not a module of smoe", path);
    return SMOE_MODULE_BROKEN;
}
