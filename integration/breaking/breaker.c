/* Breaks one system call of a program: the n-th, counted from when it is armed, of those that a fault can happen to.
 * Preloaded. What it counts are calls to the C library: what that calls itself is not seen. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* In the order of FAULTS in breaker.py. */
enum fault { NONE, SHORT, INTERRUPTED, RESET, LOST, FULL, DISK, DESCRIPTORS, STOP, FORK, FAULTS };

static atomic_long counted[FAULTS];
static atomic_int armed, broken;
static enum fault chosen;
static long nth;
static char where[64];
static int ask = -1, done = -1; /* pipes to and from the thread that forks */
static double stopped_at, went_on_at;
static __thread int exempt;

static double now(void)
{
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void breaker_pipes(int ask_on, int done_on)
{
    ask = ask_on;
    done = done_on;
}

void breaker_arm(int fault, long number)
{
    for (int each = 0; each < FAULTS; each++)
        counted[each] = 0;
    chosen = fault;
    nth = number;
    broken = 0;
    armed = 1;
}

void breaker_disarm(void) { armed = 0; }
void breaker_exempt(int whether) { exempt = whether; } /* of the calling thread */
long breaker_counted(int fault) { return counted[fault]; }
const char *breaker_where(void) { return broken ? where : ""; }
double breaker_stopped_at(void) { return stopped_at; }
double breaker_went_on_at(void) { return went_on_at; }

static void stop(void)
{
    stopped_at = now();
    syscall(SYS_kill, (long)getpid(), SIGSTOP);
    while (syscall(SYS_getpid) && now() - stopped_at < 0.5) /* the signal may come an instant later */
        syscall(SYS_sched_yield);
    went_on_at = now();
}

static void have_it_forked(void)
{
    struct pollfd answer = {.fd = done, .events = POLLIN};
    struct timespec patience = {.tv_nsec = 500000000}; /* the thread may hold what the fork waits for */
    syscall(SYS_write, ask, "f", 1);
    syscall(SYS_ppoll, &answer, 1, &patience, NULL, 0);
}

/* Whether this call is to be broken, by which of these faults; NONE if not. */
static enum fault strikes(const char *call, int fd, unsigned able)
{
    int kept = errno;
    enum fault struck = NONE;
    if (!armed || exempt)
        return NONE;
    able |= 1u << STOP | 1u << FORK;
    for (enum fault each = SHORT; each < FAULTS; each++)
        if (able & 1u << each && atomic_fetch_add(&counted[each], 1) + 1 == nth && each == chosen)
            struck = each;
    if (struck) {
        exempt = 1;
        snprintf(where, sizeof where, "%s of %d", call, fd);
        broken = 1;
        pthread_kill(pthread_self(), SIGUSR2); /* Python's faulthandler writes where this thread is */
        if (struck == STOP)
            stop();
        if (struck == FORK)
            have_it_forked();
        exempt = 0;
        if (struck == STOP || struck == FORK)
            struck = NONE; /* and the call goes on */
    }
    errno = kept;
    return struck;
}

static int is_stream(int fd)
{
    int type = 0;
    socklen_t size = sizeof type;
    return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_STREAM;
}

static int is_network(int fd)
{
    int domain = 0;
    socklen_t size = sizeof domain;
    int known = !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    return known && (domain == AF_INET || domain == AF_INET6) && is_stream(fd);
}

static int is_file(int fd)
{
    struct stat found;
    return !fstat(fd, &found) && S_ISREG(found.st_mode);
}

static unsigned of_transfer(int fd, size_t length, unsigned of_files)
{
    int kept = errno;
    unsigned able = 1u << INTERRUPTED;
    if (is_file(fd))
        able = of_files;
    else if (is_network(fd))
        able |= 1u << RESET | 1u << LOST;
    if (length > 1 && (is_file(fd) || is_stream(fd)))
        able |= 1u << SHORT;
    errno = kept;
    return able;
}

static ssize_t fails(int error)
{
    errno = error;
    return -1;
}

static ssize_t reset(int fd)
{
    shutdown(fd, SHUT_RDWR);
    return fails(ECONNRESET);
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* One that takes data to a peer or a file: LOST sends it, and nobody hears the answer. */
#define SENDS(name, parameters, fd, length, ...) \
    ssize_t name parameters \
    { \
        REAL(name); \
        ssize_t sent; \
        switch (strikes(#name, fd, of_transfer(fd, length, 1u << FULL | 1u << DISK))) { \
        case SHORT: length = 1; break; \
        case INTERRUPTED: return fails(EINTR); \
        case RESET: return reset(fd); \
        case FULL: return fails(ENOSPC); \
        case DISK: return fails(EIO); \
        case LOST: \
            sent = real(__VA_ARGS__); \
            usleep(20000); /* the peer does what it is asked to */ \
            shutdown(fd, SHUT_RDWR); \
            return sent; \
        default: break; \
        } \
        return real(__VA_ARGS__); \
    }

SENDS(write, (int fd, const void *from, size_t length), fd, length, fd, from, length)
SENDS(pwrite64, (int fd, const void *from, size_t length, off64_t at), fd, length, fd, from, length, at)
SENDS(send, (int fd, const void *from, size_t length, int flags), fd, length, fd, from, length, flags)
SENDS(sendto, (int fd, const void *from, size_t length, int flags, const struct sockaddr *to, socklen_t size),
      fd, length, fd, from, length, flags, to, size)

/* One that takes data from a peer or a file: LOST drops what has come. */
#define RECEIVES(name, parameters, fd, length, ...) \
    ssize_t name parameters \
    { \
        REAL(name); \
        switch (strikes(#name, fd, of_transfer(fd, length, 1u << DISK))) { \
        case SHORT: length = 1; break; \
        case INTERRUPTED: return fails(EINTR); \
        case LOST: real(__VA_ARGS__); return reset(fd); \
        case RESET: return reset(fd); \
        case DISK: return fails(EIO); \
        default: break; \
        } \
        return real(__VA_ARGS__); \
    }

RECEIVES(read, (int fd, void *to, size_t length), fd, length, fd, to, length)
RECEIVES(pread64, (int fd, void *to, size_t length, off64_t at), fd, length, fd, to, length, at)
RECEIVES(recv, (int fd, void *to, size_t length, int flags), fd, length, fd, to, length, flags)
RECEIVES(recvfrom, (int fd, void *restrict to, size_t length, int flags, struct sockaddr *restrict from,
                    socklen_t *restrict size),
         fd, length, fd, to, length, flags, from, size)

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(sendmsg);
    switch (strikes("sendmsg", fd, of_transfer(fd, 1, 0))) {
    case INTERRUPTED: return fails(EINTR);
    case RESET: case LOST: return reset(fd);
    default: return real(fd, message, flags);
    }
}

int connect(int fd, const struct sockaddr *to, socklen_t size)
{
    REAL(connect);
    int kept = errno, known = is_network(fd);
    errno = kept;
    switch (strikes("connect", fd, known ? 1u << RESET | 1u << INTERRUPTED : 0)) {
    case RESET: return (int)fails(ECONNREFUSED);
    case INTERRUPTED: real(fd, to, size); return (int)fails(EINTR); /* and it goes on connecting */
    default: return real(fd, to, size);
    }
}

/* One that waits, and is interrupted. */
#define WAITS(name, parameters, fd, ...) \
    int name parameters \
    { \
        REAL(name); \
        if (strikes(#name, fd, 1u << INTERRUPTED)) \
            return (int)fails(EINTR); \
        return real(__VA_ARGS__); \
    }

WAITS(poll, (struct pollfd *of, nfds_t number, int for_ms), number ? of->fd : -1, of, number, for_ms)
WAITS(epoll_wait, (int fd, struct epoll_event *into, int most, int for_ms), fd, fd, into, most, for_ms)
WAITS(select, (int below, fd_set *in, fd_set *out, fd_set *other, struct timeval *time), below, below, in, out, other, time)

/* One that makes descriptors. */
#define OPENS(name, parameters, ...) \
    int name parameters \
    { \
        REAL(name); \
        if (strikes(#name, -1, 1u << DESCRIPTORS)) \
            return (int)fails(EMFILE); \
        return real(__VA_ARGS__); \
    }

OPENS(socket, (int domain, int type, int protocol), domain, type, protocol)
OPENS(socketpair, (int domain, int type, int protocol, int ends[2]), domain, type, protocol, ends)
OPENS(accept4, (int fd, struct sockaddr *restrict from, socklen_t *restrict size, int flags), fd, from, size, flags)
OPENS(epoll_create1, (int flags), flags)
OPENS(pipe2, (int ends[2], int flags), ends, flags)
OPENS(dup, (int fd), fd)

/* What Python reads to import, and to show where it was, is no part of a call. */
static int is_source(const char *path)
{
    const char *end = strrchr(path, '.');
    return end && (!strcmp(end, ".py") || !strcmp(end, ".pyc") || !strcmp(end, ".so"));
}

#define OPENS_FILES(name, parameters, last, ...) \
    int name parameters \
    { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list more; \
            va_start(more, last); \
            mode = va_arg(more, mode_t); \
            va_end(more); \
        } \
        if (!is_source(path)) { \
            unsigned able = 1u << DESCRIPTORS | 1u << INTERRUPTED; \
            switch (strikes(#name, -1, flags & O_CREAT ? able | 1u << FULL : able)) { \
            case DESCRIPTORS: return (int)fails(EMFILE); \
            case FULL: return (int)fails(ENOSPC); \
            case INTERRUPTED: return (int)fails(EINTR); \
            default: break; \
            } \
        } \
        return real(__VA_ARGS__, mode); \
    }

OPENS_FILES(open, (const char *path, int flags, ...), flags, path, flags)
OPENS_FILES(open64, (const char *path, int flags, ...), flags, path, flags)
OPENS_FILES(openat, (int folder, const char *path, int flags, ...), flags, folder, path, flags)
OPENS_FILES(openat64, (int folder, const char *path, int flags, ...), flags, folder, path, flags)

/* One that makes files longer, or sees that they are on the disk. */
#define STORES(name, parameters, faults, fd, ...) \
    int name parameters \
    { \
        REAL(name); \
        switch (strikes(#name, fd, faults)) { \
        case FULL: return (int)fails(ENOSPC); \
        case DISK: return (int)fails(EIO); \
        default: return real(__VA_ARGS__); \
        } \
    }

STORES(fsync, (int fd), 1u << DISK | 1u << FULL, fd, fd)
STORES(fdatasync, (int fd), 1u << DISK | 1u << FULL, fd, fd)
STORES(ftruncate64, (int fd, off64_t length), 1u << DISK | 1u << FULL, fd, fd, length)
STORES(mkdir, (const char *path, mode_t mode), 1u << FULL, -1, path, mode)
STORES(unlink, (const char *path), 1u << DISK, -1, path)

/* Where a process can be stopped, or forked, besides. */
#define PASSES(name, parameters, fd, ...) \
    int name parameters \
    { \
        REAL(name); \
        strikes(#name, fd, 0); \
        return real(__VA_ARGS__); \
    }

PASSES(close, (int fd), fd, fd)
PASSES(epoll_ctl, (int fd, int operation, int of, struct epoll_event *event), fd, fd, operation, of, event)
