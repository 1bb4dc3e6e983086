/* A library for LD_PRELOAD that refuses hard links in the folder FLIP27_NO_HARD_LINKS, as a Databricks volume does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int refused(const char *path) {
    const char *folder = getenv("FLIP27_NO_HARD_LINKS");
    if (folder == NULL || strncmp(path, folder, strlen(folder)) != 0)
        return 0;
    errno = ENOSYS;
    return 1;
}

int link(const char *from, const char *to) {
    int (*next)(const char *, const char *) = dlsym(RTLD_NEXT, "link");
    return refused(to) ? -1 : next(from, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    int (*next)(int, const char *, int, const char *, int) = dlsym(RTLD_NEXT, "linkat");
    return refused(to) ? -1 : next(from_folder, from, to_folder, to, flags);
}
