/*
 * Lets one allocation of a program fail, without touching it: LD_PRELOAD this and name a file in
 * FAIL_MALLOC_FILE. The file is mapped; the test writes and reads it while the program runs:
 *
 *   live    allocations that were not freed yet, of all threads, mappings included
 *   fail    written n: the n-th allocation of the main thread from now on fails, once
 *   made    the main thread's allocations since the test set it to 0
 *
 * For the GNU C library, whose own entries it calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct shared {
	_Atomic int64_t live, fail, made;
};

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t members, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *old);

static struct shared unmapped;
static struct shared *shared = &unmapped;

__attribute__((constructor)) static void map_shared(void)
{
	const char *path = getenv("FAIL_MALLOC_FILE");
	int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	void *at = (void *)syscall(
		SYS_mmap, NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
	if (at != MAP_FAILED)
		shared = at;
	close(fd);
}

static bool fails(void)
{
	if (shared == &unmapped || gettid() != getpid())
		return false;
	atomic_fetch_add(&shared->made, 1);
	if (atomic_load(&shared->fail) == 0 || atomic_fetch_sub(&shared->fail, 1) != 1)
		return false;
	errno = ENOMEM;
	return true;
}

static void *counted(void *made)
{
	if (made != NULL)
		atomic_fetch_add(&shared->live, 1);
	return made;
}

void *malloc(size_t bytes)
{
	return fails() ? NULL : counted(__libc_malloc(bytes));
}

void *calloc(size_t members, size_t bytes)
{
	return fails() ? NULL : counted(__libc_calloc(members, bytes));
}

void *realloc(void *old, size_t bytes)
{
	if (fails())
		return NULL;
	void *made = __libc_realloc(old, bytes);
	return old == NULL ? counted(made) : made;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return fails() ? NULL : counted(__libc_memalign(alignment, bytes));
}

int posix_memalign(void **result, size_t alignment, size_t bytes)
{
	*result = fails() ? NULL : counted(__libc_memalign(alignment, bytes));
	return *result != NULL ? 0 : ENOMEM;
}

void free(void *old)
{
	if (old != NULL)
		atomic_fetch_sub(&shared->live, 1);
	__libc_free(old);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (fails())
		return MAP_FAILED;
	void *made = (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
	return made == MAP_FAILED ? made : counted(made);
}

int munmap(void *at, size_t bytes)
{
	atomic_fetch_sub(&shared->live, 1);
	return (int)syscall(SYS_munmap, at, bytes);
}
