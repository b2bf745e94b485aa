/* Mapping a table's memory; see store.h. */
#include "throttle/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the system knows of none, it says so when it is asked. */
#ifndef MADV_HUGEPAGE
#define MADV_HUGEPAGE 14
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1: at once, not when the system comes to it */
#endif

static int path_of(char path[PATH_MAX], const char *folder, const char *name)
{
	int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);

	return n > 0 && n < PATH_MAX ? 0 : ENAMETOOLONG;
}

static int map(struct store *store)
{
	bool is_anonymous = store->file < 0;

	store->memory = mmap(NULL, store->bytes, is_anonymous ? PROT_NONE : PROT_READ | PROT_WRITE,
		is_anonymous ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, store->file, 0);
	if (store->memory == MAP_FAILED) {
		store->memory = NULL;
		return errno;
	}
#ifdef MADV_NOHUGEPAGE
	/* Callers are spread over all of it at random: a few of them would make all of it resident.
	 * Only a wish. */
	madvise(store->memory, store->bytes, MADV_NOHUGEPAGE);
#endif
	return 0;
}

#define LARGE_BYTES (UINT64_C(1) << 21)

void store_use_large_page(void *memory, uint64_t bytes, uint64_t number)
{
	uintptr_t first = ((uintptr_t)memory + LARGE_BYTES - 1) & ~(uintptr_t)(LARGE_BYTES - 1);
	uintptr_t page = first + number * LARGE_BYTES;

	if (number > bytes / LARGE_BYTES || page + LARGE_BYTES > (uintptr_t)memory + bytes)
		return;
	madvise((void *)page, LARGE_BYTES, MADV_HUGEPAGE);
	madvise((void *)page, LARGE_BYTES, MADV_COLLAPSE);
}

int store_anonymous(struct store *store, uint64_t bytes)
{
	*store = (struct store){.bytes = bytes, .file = -1};
	return map(store);
}

int store_shareable(struct store *store, uint64_t bytes)
{
	int error = 0;

	*store = (struct store){.bytes = bytes, .file = memfd_create("throttle", MFD_CLOEXEC)};
	if (store->file < 0 || ftruncate(store->file, (off_t)bytes) != 0)
		error = errno;
	if (error == 0)
		error = map(store);
	if (error != 0)
		store_close(store);
	return error;
}

int store_create(struct store *store, const char *folder, const char *name, uint64_t bytes)
{
	char path[PATH_MAX];
	int error = path_of(path, folder, name);

	*store = (struct store){.bytes = bytes, .file = -1};
	if (error != 0)
		return error;
	store->file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (store->file < 0)
		return errno;
	error = ftruncate(store->file, (off_t)bytes) == 0 ? map(store) : errno;
	if (error != 0) {
		unlink(path);
		store_close(store);
	}
	return error;
}

/* Maps all of the file that was opened; errno is of its opening. Closed on failure. */
static int map_opened(struct store *store, uint64_t least_bytes)
{
	struct stat status;
	int error = 0;

	if (store->file < 0)
		return errno;
	if (fstat(store->file, &status) != 0)
		error = errno;
	else if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size < least_bytes)
		error = ENOTSUP;
	if (error == 0) {
		store->bytes = (uint64_t)status.st_size;
		error = map(store);
	}
	if (error != 0)
		store_close(store);
	return error;
}

int store_open(struct store *store, const char *folder, const char *name, uint64_t least_bytes)
{
	char path[PATH_MAX];
	int error = path_of(path, folder, name);

	*store = (struct store){.file = -1};
	if (error != 0)
		return error;
	store->file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return map_opened(store, least_bytes);
}

int store_open_shared(struct store *store, int shared, uint64_t least_bytes)
{
	char path[64];

	/* Opened again: locks belong to an open file, and an inherited one is still the other's. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", shared);
	*store = (struct store){.file = open(path, O_RDWR | O_CLOEXEC)};
	return map_opened(store, least_bytes);
}

void store_close(struct store *store)
{
	if (store->memory != NULL)
		munmap(store->memory, store->bytes);
	if (store->file >= 0)
		close(store->file);
	*store = (struct store){.file = -1};
}

int store_reserve(struct store *store, uint64_t at, uint64_t bytes)
{
	if (store->file >= 0)
		return posix_fallocate(store->file, (off_t)at, (off_t)bytes);
	return mprotect((unsigned char *)store->memory + at, bytes, PROT_READ | PROT_WRITE) == 0
		       ? 0
		       : errno;
}

void store_release(struct store *store, uint64_t at, uint64_t bytes)
{
	/* Where it can't be given back it stays: it is only room. */
	if (store->file < 0) {
		madvise((unsigned char *)store->memory + at, bytes, MADV_DONTNEED);
		mprotect((unsigned char *)store->memory + at, bytes, PROT_NONE);
		return;
	}
#ifdef FALLOC_FL_PUNCH_HOLE
	if (fallocate(store->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
		    (off_t)bytes) == 0)
		return;
#endif
	madvise((unsigned char *)store->memory + at, bytes, MADV_DONTNEED);
}

bool store_has_holes(const struct store *store, uint64_t bytes)
{
	struct stat status;

	return store->file >= 0 && fstat(store->file, &status) == 0 &&
	       (uint64_t)status.st_blocks * 512 < bytes;
}

int store_rename(const char *folder, const char *from, const char *to)
{
	char source[PATH_MAX], target[PATH_MAX];
	int error = path_of(source, folder, from);

	if (error == 0)
		error = path_of(target, folder, to);
	if (error != 0)
		return error;
	return rename(source, target) == 0 ? 0 : errno;
}

int store_remove(const char *folder, const char *name)
{
	char path[PATH_MAX];
	int error = path_of(path, folder, name);

	if (error != 0)
		return error;
	return unlink(path) == 0 ? 0 : errno;
}

bool store_is_named(const struct store *store, const char *folder, const char *name)
{
	struct stat own, named;
	char path[PATH_MAX];

	return store->file < 0 ||
	       (path_of(path, folder, name) == 0 && fstat(store->file, &own) == 0 &&
		       stat(path, &named) == 0 && own.st_dev == named.st_dev &&
		       own.st_ino == named.st_ino);
}

int store_lock(const char *folder, bool may_wait, int *lock)
{
	int error = 0;

	*lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*lock < 0)
		return errno;
	do {
		error = flock(*lock, LOCK_EX | (may_wait ? 0 : LOCK_NB)) == 0 ? 0 : errno;
	} while (error == EINTR);
	if (error == 0)
		return 0;
	store_unlock(*lock);
	*lock = -1;
	return error;
}

void store_unlock(int lock)
{
	if (lock >= 0)
		close(lock);
}

/* Of the open file, not the process: another handle in it is another lane. */
static bool set_lock(struct store *store, unsigned at, short type, int command)
{
	struct flock lock = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
	int result;

	if (store->file < 0)
		return true;
	do {
		result = fcntl(store->file, command, &lock);
	} while (result != 0 && errno == EINTR);
	return result == 0;
}

static bool set_lane(struct store *store, unsigned lane, short type)
{
	return set_lock(store, lane, type, F_OFD_SETLK);
}

#define SHARED_LOCK 4096 /* behind all lanes */

bool store_lock_shared(struct store *store, bool may_wait)
{
	return set_lock(store, SHARED_LOCK, F_WRLCK, may_wait ? F_OFD_SETLKW : F_OFD_SETLK);
}

void store_unlock_shared(struct store *store)
{
	set_lock(store, SHARED_LOCK, F_UNLCK, F_OFD_SETLK);
}

bool store_take_lane(struct store *store, unsigned lane)
{
	return set_lane(store, lane, F_WRLCK);
}

void store_free_lane(struct store *store, unsigned lane)
{
	set_lane(store, lane, F_UNLCK);
}

int store_random(void *bytes, size_t count)
{
	unsigned char *p = bytes;

	while (count > 0) {
		ssize_t n = getrandom(p, count, 0);

		if (n < 0 && errno != EINTR)
			return errno;
		if (n > 0) {
			p += n;
			count -= (size_t)n;
		}
	}
	return 0;
}
