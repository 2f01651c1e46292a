/* Shows a process a wall clock that is some seconds off. Preloaded by tests; the product knows nothing of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    static long offset;
    if (!real) {
        const char *text = getenv("CLOCK_OFFSET_SECONDS");
        offset = text ? atol(text) : 0;
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int result = real(id, now);
    if (result == 0 && id == CLOCK_REALTIME)
        now->tv_sec += offset;
    return result;
}
