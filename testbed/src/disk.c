/* A disk that hangs or is full, for the file or folder that TEST_DISK names: preloaded into a relay. It hangs while a file of
 * this name with the ending .hangs exists, and is full while there is one with the ending .full. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int has(const char *ending) {
  char flag[4096];
  snprintf(flag, sizeof flag, "%s%s", getenv("TEST_DISK"), ending);
  return access(flag, F_OK) == 0;
}

static int is_of_disk(const char *path) {
  const char *disk = getenv("TEST_DISK");
  size_t length = disk ? strlen(disk) : 0;
  return disk && path && strncmp(path, disk, length) == 0 && (path[length] == 0 || path[length] == '/');
}

static void wait_for_disk(void) {
  while (has(".hangs")) usleep(10000);
}

ssize_t write(int fd, const void *bytes, size_t count) {
  static ssize_t (*next)(int, const void *, size_t);
  if (!next) next = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  char name[64], path[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(name, path, sizeof path - 1);
  path[length > 0 ? length : 0] = 0;
  if (is_of_disk(path)) {
    wait_for_disk();
    if (has(".full")) {
      errno = ENOSPC;
      return -1;
    }
  }
  return next(fd, bytes, count);
}

static int open_when_it_answers(const char *name, const char *path, int flags, mode_t mode) {
  int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);
  if (is_of_disk(path)) wait_for_disk();
  return next(path, flags, mode);
}

#define MODE(flags)                         \
  mode_t mode = 0;                          \
  if ((flags) & (O_CREAT | O_TMPFILE)) {    \
    va_list more;                           \
    va_start(more, flags);                  \
    mode = va_arg(more, mode_t);            \
    va_end(more);                           \
  }

int open(const char *path, int flags, ...) {
  MODE(flags)
  return open_when_it_answers("open", path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  MODE(flags)
  return open_when_it_answers("open64", path, flags, mode);
}
