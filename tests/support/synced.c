/* Preloaded into the server by tests/torture.py: writes down how much of each file of the home is synced, so that
 * the test can take the rest away, as a power failure does. SYNCED_NOTES is the folder of notes: one per file, by its device and inode, "size salt\n". The salt is that of SQLite's log, which is begun anew at times. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SALT_AT = 16, SALT_SIZE = 8 };

static void note(int fd, const struct stat* before) {
  const char* notes = getenv("SYNCED_NOTES");
  char path[4096];
  char place[64];
  char text[64];
  unsigned char salt[SALT_SIZE] = {0};
  if (notes == NULL || !S_ISREG(before->st_mode)) return;
  snprintf(place, sizeof place, "/%llu-%llu", (unsigned long long)before->st_dev, (unsigned long long)before->st_ino);
  snprintf(path, sizeof path, "%s%s", notes, place);
  if (pread(fd, salt, SALT_SIZE, SALT_AT) < 0) memset(salt, 0, sizeof salt);
  int length = snprintf(text, sizeof text, "%lld ", (long long)before->st_size);
  for (int i = 0; i < SALT_SIZE; ++i) length += snprintf(text + length, sizeof text - length, "%02x", salt[i]);
  text[length++] = '\n';
  const int out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (out < 0) return;
  if (pwrite(out, text, length, 0) == length && ftruncate(out, length) != 0) unlink(path);
  close(out);
}

static int sync_and_note(const char* name, int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  struct stat before;
  const int known = fstat(fd, &before) == 0;
  const int result = real(fd);
  if (result == 0 && known) note(fd, &before);
  return result;
}

int fsync(int fd) { return sync_and_note("fsync", fd); }
int fdatasync(int fd) { return sync_and_note("fdatasync", fd); }
