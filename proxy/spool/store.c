#include "spool/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define REPORT_NS (10ULL * 1000 * 1000 * 1000)

bool store_init(struct spool_store *store, const char *folder)
{
	*store = (struct spool_store){0};
	if (!folder)
		return true;
	store->folder = strdup(folder);
	return store->folder != NULL;
}

void store_end(struct spool_store *store)
{
	free(store->folder);
	store->folder = NULL;
}

void store_set_bounds(struct spool_store *store, uint64_t memory_max, uint64_t disk_max)
{
	uint64_t gateway_max = memory_max > STORE_GATEWAY_LEAST ? memory_max : STORE_GATEWAY_LEAST;

	/* relaxed, here and below: numbers that publish nothing */
	atomic_store_explicit(&store->memory_max, memory_max, memory_order_relaxed);
	atomic_store_explicit(&store->gateway_max, gateway_max, memory_order_relaxed);
	atomic_store_explicit(&store->disk_max, disk_max, memory_order_relaxed);
}

static bool take(_Atomic uint64_t *used, uint64_t most, uint64_t bytes)
{
	uint64_t before = atomic_fetch_add_explicit(used, bytes, memory_order_relaxed);

	if (before <= most && bytes <= most - before)
		return true;
	atomic_fetch_sub_explicit(used, bytes, memory_order_relaxed);
	return false;
}

bool store_take_memory(struct spool_store *store, enum spool_use use, uint64_t bytes)
{
	bool is_gateway = use == SPOOL_GATEWAY;
	uint64_t most = atomic_load_explicit(
		is_gateway ? &store->gateway_max : &store->memory_max, memory_order_relaxed);

	if (is_gateway)
		return take(&store->uses[use].memory, most, bytes);
	if (!take(&store->memory, most, bytes))
		return false;
	atomic_fetch_add_explicit(&store->uses[use].memory, bytes, memory_order_relaxed);
	return true;
}

void store_force_memory(struct spool_store *store, enum spool_use use, uint64_t bytes)
{
	if (use != SPOOL_GATEWAY)
		atomic_fetch_add_explicit(&store->memory, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&store->uses[use].memory, bytes, memory_order_relaxed);
}

void store_give_memory(struct spool_store *store, enum spool_use use, uint64_t bytes)
{
	if (use != SPOOL_GATEWAY)
		atomic_fetch_sub_explicit(&store->memory, bytes, memory_order_relaxed);
	atomic_fetch_sub_explicit(&store->uses[use].memory, bytes, memory_order_relaxed);
}

void store_report(struct spool_store *store, const char *what, int error)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t last_ns = atomic_load_explicit(&store->reported_ns, memory_order_relaxed);
	char more[64] = "";

	/* Of several threads one writes the line. */
	if ((last_ns != 0 && now_ns - last_ns < REPORT_NS) ||
		!atomic_compare_exchange_strong_explicit(&store->reported_ns, &last_ns, now_ns,
			memory_order_relaxed, memory_order_relaxed)) {
		atomic_fetch_add_explicit(&store->unreported, 1, memory_order_relaxed);
		return;
	}
	unsigned count = atomic_exchange_explicit(&store->unreported, 0, memory_order_relaxed);
	if (count > 0)
		snprintf(more, sizeof(more), " (%u more failures since the last line)", count);
	log_error("buffering_folder %s: %s: %s%s", store->folder, what, strerror(error), more);
}

/* Where the file system has no O_TMPFILE. */
static int open_and_unlink(const char *folder)
{
	char path[PATH_MAX];
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/sluice.XXXXXX", folder) >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

int store_open_file(struct spool_store *store)
{
	int fd = -1, error = EMFILE;

	errno = ENOENT;
	if (!store->folder)
		return -1;
	if (atomic_fetch_add_explicit(&store->files, 1, memory_order_relaxed) >= store->files_max)
		goto none;
	fd = open(store->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
		fd = open_and_unlink(store->folder);
	if (fd >= 0)
		return fd;
	error = errno;
	store_report(store, "a temporary file", error);
none:
	atomic_fetch_sub_explicit(&store->files, 1, memory_order_relaxed);
	errno = error;
	return -1;
}

bool store_grow_file(
	struct spool_store *store, enum spool_use use, int fd, uint64_t size, uint64_t bytes)
{
	uint64_t most = atomic_load_explicit(&store->disk_max, memory_order_relaxed);
	int error;

	if (!take(&store->disk, most, bytes))
		return false;
	do {
		error = fallocate(fd, 0, (off_t)size, (off_t)bytes) == 0 ? 0 : errno;
	} while (error == EINTR);
	/* Where the file system can't reserve, a write may fail for lack of space. */
	if (error == 0 || error == EOPNOTSUPP) {
		atomic_fetch_add_explicit(&store->uses[use].disk, bytes, memory_order_relaxed);
		return true;
	}
	atomic_fetch_sub_explicit(&store->disk, bytes, memory_order_relaxed);
	store_report(store, "a temporary file can't grow", error);
	return false;
}

void store_close_file(struct spool_store *store, enum spool_use use, int fd, uint64_t size)
{
	close(fd);
	atomic_fetch_sub_explicit(&store->uses[use].disk, size, memory_order_relaxed);
	atomic_fetch_sub_explicit(&store->disk, size, memory_order_relaxed);
	atomic_fetch_sub_explicit(&store->files, 1, memory_order_relaxed);
}
