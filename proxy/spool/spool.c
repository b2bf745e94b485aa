#include "spool/spool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Pieces of memory, their heads included; what is wanted decides which. */
#define PIECE_LEAST 4096u
#define PIECE_MOST  65536u
/* For what is read back, of which each spool has one. */
#define PIECE_BACK 16384u
/* A file grows by so much. */
#define GROWTH (1024 * 1024ULL)

struct piece {
	struct piece *next;
	uint32_t start, end, capacity;
	char bytes[];
};

struct spool {
	struct spool_store *store;
	struct spool_limits limits;
	struct piece *first, *last;
	uint64_t in_memory;         /* bytes held */
	uint64_t taken;             /* of the store's memory */
	int fd;                     /* -1: no file */
	bool failed;                /* its file can't be written or read: no more goes in */
	bool is_lost;               /* nor does what was in it come out */
	bool filled;                /* its own limits were reached, which is counted once */
	bool refused[STORE_BOUNDS]; /* the same of its store's */
	uint64_t file_size;         /* reserved */
	uint64_t file_start;        /* of the ring, modulo limits.file */
	uint64_t in_file;           /* bytes held */
};

struct spool *spool_new(struct spool_store *store, struct spool_limits limits)
{
	struct spool *spool = calloc(1, sizeof(*spool));

	if (!spool)
		return NULL;
	spool->store = store;
	spool->limits = limits;
	spool->fd = -1;
	return spool;
}

static size_t piece_bytes(const struct piece *piece)
{
	return sizeof(*piece) + piece->capacity;
}

static void drop_piece(struct spool *spool)
{
	struct piece *piece = spool->first;

	spool->first = piece->next;
	if (!spool->first)
		spool->last = NULL;
	spool->taken -= piece_bytes(piece);
	store_give_memory(spool->store, spool->limits.use, piece_bytes(piece));
	free(piece);
}

void spool_free(struct spool *spool)
{
	if (!spool)
		return;
	while (spool->first)
		drop_piece(spool);
	assert(spool->taken == 0);
	if (spool->fd >= 0)
		store_close_file(spool->store, spool->limits.use, spool->fd, spool->file_size);
	free(spool);
}

uint64_t spool_bytes(const struct spool *spool)
{
	return spool->in_memory + spool->in_file;
}

uint64_t spool_space(const struct spool *spool)
{
	uint64_t most = spool->limits.memory + spool->limits.file, used = spool_bytes(spool);

	return used < most && !spool->failed ? most - used : 0;
}

bool spool_failed(const struct spool *spool)
{
	return spool->failed;
}

bool spool_is_lost(const struct spool *spool)
{
	return spool->is_lost;
}

/* relaxed, both: numbers for people */
static void note_refused(struct spool *spool, enum store_bound bound)
{
	if (!spool->refused[bound])
		atomic_fetch_add_explicit(&spool->store->refused[bound], 1, memory_order_relaxed);
	spool->refused[bound] = true;
}

static void note_filled(struct spool *spool)
{
	if (!spool->filled)
		atomic_fetch_add_explicit(
			&spool->store->uses[spool->limits.use].filled, 1, memory_order_relaxed);
	spool->filled = true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A piece of `bytes` in all, its memory taken of the store already. */
static bool add_piece(struct spool *spool, size_t bytes)
{
	struct piece *piece = malloc(bytes);

	if (!piece)
		return false;
	*piece = (struct piece){.capacity = (uint32_t)(bytes - sizeof(*piece))};
	if (spool->last)
		spool->last->next = piece;
	else
		spool->first = piece;
	spool->last = piece;
	spool->taken += bytes;
	return true;
}

/* `*bytes` for a piece, or fewer. A short answer for a gateway has room whatever others hold: there
 * are at most as many as sockets, each of which holds more. */
static bool take_memory(struct spool *spool, size_t *bytes)
{
	enum spool_use use = spool->limits.use;

	if (store_take_memory(spool->store, use, *bytes))
		return true;
	note_refused(spool, STORE_MEMORY);
	if (use != SPOOL_GATEWAY || spool->first)
		return false;
	*bytes = PIECE_LEAST;
	store_force_memory(spool->store, use, *bytes);
	return true;
}

static size_t memory_room(struct spool *spool, size_t wanted)
{
	size_t bytes = PIECE_LEAST;
	uint64_t left;

	if (spool->in_file > 0 || spool->in_memory >= spool->limits.memory)
		return 0;
	left = spool->limits.memory - spool->in_memory;
	if (wanted > left)
		wanted = (size_t)left;
	if (!spool->last || spool->last->end == spool->last->capacity) {
		while (bytes < wanted + sizeof(struct piece) && bytes < PIECE_MOST)
			bytes *= 2;
		if (!take_memory(spool, &bytes))
			return 0;
		if (!add_piece(spool, bytes)) {
			store_give_memory(spool->store, spool->limits.use, bytes);
			return 0;
		}
	}
	left = spool->last->capacity - spool->last->end;
	return wanted < left ? wanted : (size_t)left;
}

static void put_in_memory(struct spool *spool, const char *at, size_t count)
{
	struct piece *piece = spool->last;

	memcpy(piece->bytes + piece->end, at, count);
	piece->end += (uint32_t)count;
	spool->in_memory += count;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Where the next byte goes. */
static uint64_t ring_end(const struct spool *spool)
{
	return (spool->file_start + spool->in_file) % spool->limits.file;
}

static bool grow(struct spool *spool)
{
	uint64_t bytes = spool->limits.file - spool->file_size;

	if (bytes > GROWTH)
		bytes = GROWTH;
	if (spool->fd < 0 && (spool->fd = store_open_file(spool->store)) < 0) {
		if (errno == EMFILE)
			note_refused(spool, STORE_FILES);
		return false;
	}
	if (!store_grow_file(spool->store, spool->limits.use, spool->fd, spool->file_size, bytes)) {
		note_refused(spool, STORE_DISK);
		return false;
	}
	spool->file_size += bytes;
	return true;
}

static size_t file_room(struct spool *spool, size_t wanted)
{
	uint64_t at, left;

	if (spool->in_file >= spool->limits.file) {
		if (spool->limits.file > 0)
			note_filled(spool);
		return 0;
	}
	at = ring_end(spool);
	if (at >= spool->file_size && !grow(spool))
		return 0;
	/* To the ring's start if that is before us, else to where the file ends as yet. */
	left = at < spool->file_start ? spool->file_start - at : spool->file_size - at;
	return wanted < left ? wanted : (size_t)left;
}

/* How many were written: fewer than `count` only when the file can't be. */
static size_t put_in_file(struct spool *spool, const char *at, size_t count)
{
	size_t done = 0;

	while (done < count && !spool->failed) {
		ssize_t n = pwrite(spool->fd, at + done, count - done, (off_t)ring_end(spool));
		if (n > 0) {
			done += (size_t)n;
			spool->in_file += (uint64_t)n;
		} else if (n == 0 || errno != EINTR) {
			store_report(spool->store, "a temporary file can't be written",
				n == 0 ? ENOSPC : errno);
			spool->failed = true;
		}
	}
	return done;
}

/* A piece to read into, at most as large as what there is to read. */
static bool add_read_piece(struct spool *spool, uint64_t count)
{
	size_t bytes = PIECE_BACK;

	if (bytes > count + sizeof(struct piece))
		bytes = (size_t)count + sizeof(struct piece);
	/* What is in the file must come out whatever others hold in memory. */
	store_force_memory(spool->store, spool->limits.use, bytes);
	if (add_piece(spool, bytes))
		return true;
	store_give_memory(spool->store, spool->limits.use, bytes);
	errno = ENOMEM;
	return false;
}

/* Memory is empty: the oldest of the file become its oldest. */
static bool read_back(struct spool *spool)
{
	uint64_t run = spool->limits.file - spool->file_start;
	ssize_t n;

	if (!add_read_piece(spool, run < spool->in_file ? run : spool->in_file))
		return false;
	do {
		n = pread(spool->fd, spool->last->bytes, spool->last->capacity,
			(off_t)spool->file_start);
	} while (n < 0 && errno == EINTR);
	if (n <= 0) {
		errno = n < 0 ? errno : EIO;
		return false;
	}
	spool->last->end = (uint32_t)n;
	spool->in_memory += (uint64_t)n;
	spool->in_file -= (uint64_t)n;
	spool->file_start = (spool->file_start + (uint64_t)n) % spool->limits.file;
	if (spool->in_file == 0)
		spool->file_start = 0;
	return true;
}

/* What is in the file can't come out any more. */
static void lose(struct spool *spool)
{
	store_report(spool->store, "a temporary file can't be read", errno);
	spool->failed = spool->is_lost = true;
	while (spool->first)
		drop_piece(spool);
	spool->in_memory = spool->in_file = 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* As spool_room, and whether it is in the file. */
static size_t find_room(struct spool *spool, size_t wanted, bool *is_file)
{
	uint64_t space = spool_space(spool);
	size_t room;

	*is_file = false;
	if (space == 0) {
		if (!spool->failed)
			note_filled(spool);
		return 0;
	}
	if (wanted > space)
		wanted = (size_t)space;
	room = memory_room(spool, wanted);
	*is_file = room == 0;
	return *is_file ? file_room(spool, wanted) : room;
}

size_t spool_room(struct spool *spool, size_t wanted)
{
	bool is_file;

	assert(wanted > 0);
	return find_room(spool, wanted, &is_file);
}

size_t spool_put(struct spool *spool, struct slice bytes)
{
	size_t done = 0;

	while (done < bytes.len) {
		bool is_file;
		size_t n = find_room(spool, bytes.len - done, &is_file);
		if (n == 0)
			break;
		if (is_file)
			n = put_in_file(spool, bytes.at + done, n);
		else
			put_in_memory(spool, bytes.at + done, n);
		done += n;
	}
	if (spool->in_file == 0 || spool->in_memory > 0 || read_back(spool))
		return done;
	lose(spool);
	return 0;
}

struct slice spool_front(const struct spool *spool)
{
	const struct piece *piece = spool->first;

	if (!piece)
		return SLICE_NONE;
	return (struct slice){piece->bytes + piece->start, piece->end - piece->start};
}

bool spool_drop(struct spool *spool, size_t count)
{
	struct piece *piece = spool->first;

	if (count == 0)
		return !spool->is_lost;
	assert(piece && count <= piece->end - piece->start);
	piece->start += (uint32_t)count;
	spool->in_memory -= count;
	if (piece->start < piece->end)
		return true;
	drop_piece(spool);
	if (spool->in_memory > 0 || spool->in_file == 0 || read_back(spool))
		return true;
	lose(spool);
	return false;
}
