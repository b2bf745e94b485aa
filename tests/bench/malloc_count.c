/*
 * Counts what a program allocates, without touching it: LD_PRELOAD this and name a file in
 * MALLOC_COUNT_FILE. The file is mapped and holds four 64-bit counts that anyone can read while the
 * program runs: allocations (malloc, calloc, aligned ones), reallocations, frees (of other than
 * NULL) and bytes asked for. For the GNU C library, whose own entries it calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct counts {
	_Atomic uint64_t allocations;
	_Atomic uint64_t reallocations;
	_Atomic uint64_t frees;
	_Atomic uint64_t bytes;
};

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t members, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *old);

static struct counts
	before_mapping; /* what is allocated until the file is mapped is not asked for */
static struct counts *counts = &before_mapping;

__attribute__((constructor)) static void map_counts(void)
{
	const char *path = getenv("MALLOC_COUNT_FILE");
	int fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;

	if (fd < 0)
		return;
	if (ftruncate(fd, sizeof *counts) == 0) {
		void *mapped =
			mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (mapped != MAP_FAILED)
			counts = mapped;
	}
	close(fd);
}

/* The counts are only ever summed: no order with anything else is needed. */
static void count(_Atomic uint64_t *counter, uint64_t add)
{
	atomic_fetch_add_explicit(counter, add, memory_order_relaxed);
}

static void count_allocation(size_t bytes)
{
	count(&counts->allocations, 1);
	count(&counts->bytes, bytes);
}

void *malloc(size_t bytes)
{
	count_allocation(bytes);
	return __libc_malloc(bytes);
}

void *calloc(size_t members, size_t bytes)
{
	count_allocation(members * bytes);
	return __libc_calloc(members, bytes);
}

void *realloc(void *old, size_t bytes)
{
	count(&counts->reallocations, 1);
	count(&counts->bytes, bytes);
	return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	count_allocation(bytes);
	return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **result, size_t alignment, size_t bytes)
{
	count_allocation(bytes);
	*result = __libc_memalign(alignment, bytes);
	return *result != NULL ? 0 : ENOMEM;
}

void free(void *old)
{
	if (old != NULL)
		count(&counts->frees, 1);
	__libc_free(old);
}
