/* The wall clock of a program, set ahead of the machine's by as many seconds as the file named by CLOCK_AHEAD
 * says, in 8 bytes. Preloaded; libfaketime does not start together with jemalloc, which Redis uses. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *ahead_s;

__attribute__((constructor)) static void find(void)
{
    int file = open(getenv("CLOCK_AHEAD"), O_RDONLY | O_CLOEXEC);
    void *found = mmap(NULL, sizeof *ahead_s, PROT_READ, MAP_SHARED, file, 0);
    if (found == MAP_FAILED)
        abort();
    ahead_s = found;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec real;
    (void)zone;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec + (ahead_s ? *ahead_s : 0);
    now->tv_usec = real.tv_nsec / 1000;
    return 0;
}
