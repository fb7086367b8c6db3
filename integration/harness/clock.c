/* The wall clock of a program, set ahead of the machine's by as many seconds as the file named by CLOCK_AHEAD
 * says, in 8 bytes. Preloaded; libfaketime does not start together with jemalloc, which Redis uses, and leaves
 * shared memory behind if its program is killed. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
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
    close(file);
}

static time_t ahead(void)
{
    return ahead_s ? (time_t)*ahead_s : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += ahead();
    return failed;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec real;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec;
    now->tv_usec = real.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found)
        *found = now.tv_sec;
    return now.tv_sec;
}

/* A deadline was counted from the clock above, and the kernel has its own. Those that are soon after the machine
 * was started are of the monotonic clock. */
int pthread_cond_timedwait(pthread_cond_t *changed, pthread_mutex_t *mutex, const struct timespec *until)
{
    struct timespec real = *until;
    if (until->tv_sec < 1000000000)
        return pthread_cond_clockwait(changed, mutex, CLOCK_MONOTONIC, until);
    real.tv_sec -= ahead();
    return pthread_cond_clockwait(changed, mutex, CLOCK_REALTIME, &real);
}
