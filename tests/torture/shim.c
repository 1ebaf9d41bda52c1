/* Preloaded into a build: counts what it does to files, and at one of these calls ends it or lets the call fail.
 *
 * What is to happen stands in a file that all processes of the build map (`torture_arm`); its layout is that of
 * shim.py. Calls count where they concern files below `folder` or, reading, `library`.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOTHING, KILL_SELF, KILL_MAIN, KILL_GROUP, FAIL, LOSE_POWER, LOSE_POWER_AND_RENAME };
enum { WRITE = 1, SYNC = 2, NAME = 4, READ_INDEX = 8, READ_LIBRARY = 16, PIPE = 32 };
enum { ANYBODY, MAIN, HELPERS };
#define FILES 64

struct plan {
    int64_t action, error, at, sticky, who, main, mask, count, fired, renamed;
    int64_t dirty[FILES]; /* inodes of files with content that was not synced */
    char folder[1024], library[1024], from[1024], to[1024], kept[1024];
};

static struct plan *plan;

#define REAL(name) ((__typeof__(&name)) real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

int torture_arm(const char *file) {
    int fd = REAL(open)(file, O_RDWR);
    if (fd < 0) return -1;
    plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (plan == MAP_FAILED) return -1;
    plan->main = getpid();
    return 0;
}

static int is_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return length && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    path[length < 0 ? 0 : length] = 0;
    return length > 0;
}

static void note(int64_t inode, int is_dirty) {
    for (int i = 0; i < FILES; i++)
        if (plan->dirty[i] == inode || (is_dirty && !plan->dirty[i])) {
            plan->dirty[i] = is_dirty ? inode : 0;
            return;
        }
}

static void empty_dirty(const char *place) {
    DIR *folder = opendir(place);
    for (struct dirent *file; folder && (file = readdir(folder));) {
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", place, file->d_name);
        if (file->d_type == DT_DIR && file->d_name[0] != '.') empty_dirty(path);
        for (int i = 0; i < FILES; i++)
            if (plan->dirty[i] && (int64_t) file->d_ino == plan->dirty[i]) (void) !truncate(path, 0);
    }
}

/* What was not synced is gone, and so is a name that its folder was not synced with. */
static void lose_power(int with_rename) {
    empty_dirty(plan->folder);
    if (with_rename && plan->renamed) {
        REAL(rename)(plan->to, plan->from);
        REAL(rename)(plan->kept, plan->to);
    }
}

static void strike(void) {
    if (plan->action >= LOSE_POWER) lose_power(plan->action == LOSE_POWER_AND_RENAME);
    kill(plan->action == KILL_SELF ? getpid() : plan->action == KILL_MAIN ? (pid_t) plan->main : 0, SIGKILL);
}

/* Return 0 where the call is to be made, 1 where it is to fail, 2 where half of it is to be made, and then the fault. */
static int meets_fault(int kind, const char *path) {
    if (!plan) return 0;
    int is_main = getpid() == plan->main;
    int is_there = is_below(path, plan->folder);
    if (kind == READ_INDEX && !is_there && is_below(path, plan->library)) kind = READ_LIBRARY, is_there = 1;
    if (kind == WRITE && !is_there && !is_main) kind = PIPE, is_there = 1;
    if (!is_there || !(kind & plan->mask)) return 0;
    if ((plan->who == MAIN && !is_main) || (plan->who == HELPERS && is_main)) return 0;
    int64_t count = __atomic_add_fetch(&plan->count, 1, __ATOMIC_SEQ_CST);
    if (!plan->action || count < plan->at || (count > plan->at && !plan->sticky)) return 0;
    plan->fired++;
    if (plan->action == FAIL) {
        errno = (int) plan->error;
        return 1;
    }
    if (kind == WRITE && count % 2) return 2;
    strike();
    return 0;
}

static int meets_fault_at(int kind, int fd) {
    char path[2048];
    struct stat status;
    if (!plan || !path_of(fd, path, sizeof path)) return 0;
    if (kind == WRITE && is_below(path, plan->folder) && !fstat(fd, &status)) note((int64_t) status.st_ino, 1);
    return meets_fault(kind, path);
}

static void synced(int fd) {
    struct stat status;
    char path[2048];
    if (!plan || !path_of(fd, path, sizeof path) || !is_below(path, plan->folder) || fstat(fd, &status)) return;
    if (S_ISDIR(status.st_mode)) plan->renamed = 0;
    else note((int64_t) status.st_ino, 0);
}

#define WRITES(name, parameters, whole, half)                 \
    ssize_t name parameters {                                 \
        int fault = meets_fault_at(WRITE, fd);                \
        if (fault == 1) return -1;                            \
        if (fault == 2) {                                     \
            (void) !REAL(name) half;                          \
            strike();                                         \
        }                                                     \
        return REAL(name) whole;                              \
    }
WRITES(write, (int fd, const void *from, size_t size), (fd, from, size), (fd, from, size / 2))
WRITES(pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at), (fd, from, size / 2, at))
WRITES(pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at), (fd, from, size / 2, at))
WRITES(sendfile, (int fd, int in, off_t *at, size_t size), (fd, in, at, size), (fd, in, at, size / 2))
WRITES(sendfile64, (int fd, int in, off64_t *at, size_t size), (fd, in, at, size), (fd, in, at, size / 2))

#define CALLS(type, name, parameters, arguments, fault, after)      \
    type name parameters {                                          \
        if (fault) return -1;                                       \
        type done = REAL(name) arguments;                           \
        if (done >= 0) { after; }                                   \
        return done;                                                \
    }
CALLS(int, ftruncate, (int fd, off_t size), (fd, size), meets_fault_at(WRITE, fd) == 1, )
CALLS(int, ftruncate64, (int fd, off64_t size), (fd, size), meets_fault_at(WRITE, fd) == 1, )
CALLS(int, fsync, (int fd), (fd), meets_fault_at(SYNC, fd) == 1, synced(fd))
CALLS(int, fdatasync, (int fd), (fd), meets_fault_at(SYNC, fd) == 1, synced(fd))
CALLS(int, unlink, (const char *path), (path), meets_fault(NAME, path) == 1, )
CALLS(int, utimensat, (int fd, const char *path, const struct timespec times[2], int flags), (fd, path, times, flags),
      meets_fault(NAME, path) == 1, )
CALLS(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size), meets_fault_at(READ_INDEX, fd) == 1, )
CALLS(ssize_t, pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at),
      meets_fault_at(READ_INDEX, fd) == 1, )
CALLS(ssize_t, pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at),
      meets_fault_at(READ_INDEX, fd) == 1, )

CALLS(int, link, (const char *from, const char *to), (from, to), meets_fault(NAME, to) == 1, )

int rename(const char *from, const char *to) {
    if (meets_fault(NAME, from) == 1) return -1;
    if (plan && is_below(to, plan->folder)) {
        REAL(unlink)(plan->kept);
        plan->renamed = !REAL(link)(to, plan->kept);
        snprintf(plan->from, sizeof plan->from, "%s", from);
        snprintf(plan->to, sizeof plan->to, "%s", to);
    }
    return REAL(rename)(from, to);
}

#define OPENS(name)                                                         \
    int name(const char *path, int flags, ...) {                            \
        va_list rest;                                                       \
        va_start(rest, flags);                                              \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                       \
        if (meets_fault(flags & O_CREAT ? NAME : READ_INDEX, path) == 1) return -1; \
        return REAL(name)(path, flags, mode);                               \
    }
OPENS(open)
OPENS(open64)
