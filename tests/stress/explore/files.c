/*
 * throttle/store.h without a file system: files are blocks of memory with a name, so that a
 * simulated process can be killed at any point, and the next one finds what a real one would. And
 * the memory of each simulated process, which ends with it.
 */
#include "throttle/store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/stress/explore/engine.h"

#define FILES   16
#define HANDLES 32
#define BLOCKS  256
#define LANES   8
#define FREED   0xdd /* what memory is filled with that nothing may look at any more */

struct file {
	char name[32]; /* "": none (any more) */
	void *memory;  /* NULL: this place is free */
	size_t bytes;
	unsigned opens;
	unsigned lane_owner[LANES]; /* 1 + the handle */
};

struct handle {
	struct file *file; /* NULL: free */
	unsigned process;
};

struct block {
	void *memory;
	size_t bytes;
	unsigned process;
};

static struct {
	struct file files[FILES];
	struct handle handles[HANDLES];
	struct block blocks[BLOCKS];
	unsigned locked; /* the folder: 1 + the process */
	bool is_full_at_times;
} all;

/* ---- memory ---- */

static void *allocate(size_t bytes)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (all.blocks[i].memory == NULL) {
			all.blocks[i].memory = calloc(1, bytes > 0 ? bytes : 1);
			all.blocks[i].bytes = bytes;
			all.blocks[i].process = engine_process();
			memory_forget(all.blocks[i].memory, bytes);
			return all.blocks[i].memory;
		}
	abort();
}

static void free_block(struct block *block)
{
	memory_forget(block->memory, block->bytes);
	memset(block->memory, FREED, block->bytes);
	free(block->memory);
	block->memory = NULL;
}

void *explore_calloc(size_t count, size_t bytes);
void *explore_malloc(size_t bytes);
void *explore_reallocarray(void *memory, size_t count, size_t bytes);
char *explore_strdup(const char *text);
void explore_free(void *memory);

void *explore_calloc(size_t count, size_t bytes)
{
	return allocate(count * bytes);
}

void *explore_malloc(size_t bytes)
{
	return allocate(bytes);
}

void *explore_reallocarray(void *memory, size_t count, size_t bytes)
{
	void *next = allocate(count * bytes);

	for (unsigned i = 0; memory != NULL && i < BLOCKS; i++)
		if (all.blocks[i].memory == memory) {
			size_t had = all.blocks[i].bytes;

			memcpy(next, memory, had < count * bytes ? had : count * bytes);
			free_block(&all.blocks[i]);
		}
	return next;
}

char *explore_strdup(const char *text)
{
	return strcpy(allocate(strlen(text) + 1), text);
}

void explore_free(void *memory)
{
	if (memory == NULL)
		return;
	for (unsigned i = 0; i < BLOCKS; i++)
		if (all.blocks[i].memory == memory) {
			free_block(&all.blocks[i]);
			return;
		}
	abort();
}

/* ---- files ---- */

static struct file *find(const char *name)
{
	for (unsigned i = 0; i < FILES; i++)
		if (all.files[i].memory != NULL && strcmp(all.files[i].name, name) == 0)
			return &all.files[i];
	return NULL;
}

static void drop_if_unused(struct file *file)
{
	if (file->opens > 0 || file->name[0] != '\0')
		return;
	memory_forget(file->memory, file->bytes);
	memset(file->memory, FREED, file->bytes);
	free(file->memory);
	*file = (struct file){0};
}

static int open_handle(struct file *file)
{
	for (int i = 0; i < HANDLES; i++)
		if (all.handles[i].file == NULL) {
			all.handles[i] = (struct handle){file, engine_process()};
			file->opens++;
			return i;
		}
	abort();
}

static void close_handle(int i)
{
	struct file *file = all.handles[i].file;

	for (unsigned lane = 0; lane < LANES; lane++)
		if (file->lane_owner[lane] == (unsigned)i + 1)
			file->lane_owner[lane] = 0;
	all.handles[i].file = NULL;
	file->opens--;
	drop_if_unused(file);
}

static struct file *make_file(const char *name, uint64_t bytes)
{
	for (unsigned i = 0; i < FILES; i++)
		if (all.files[i].memory == NULL) {
			all.files[i] = (struct file){
				.memory = calloc(1, (size_t)bytes), .bytes = (size_t)bytes};
			if (all.files[i].memory == NULL)
				abort();
			memory_forget(all.files[i].memory, (size_t)bytes);
			strncpy(all.files[i].name, name, sizeof(all.files[i].name) - 1);
			return &all.files[i];
		}
	abort();
}

int store_anonymous(struct store *store, uint64_t bytes)
{
	struct file *file = make_file("", bytes);

	*store = (struct store){.memory = file->memory, .bytes = bytes, .file = open_handle(file)};
	return 0;
}

/* Descriptors are not simulated: scenarios share tables by folders. */
int store_shareable(struct store *store, uint64_t bytes)
{
	(void)bytes;
	*store = (struct store){.file = -1};
	return ENOTSUP;
}

int store_open_shared(struct store *store, int shared, uint64_t least_bytes)
{
	(void)shared;
	(void)least_bytes;
	*store = (struct store){.file = -1};
	return ENOTSUP;
}

int store_create(struct store *store, const char *folder, const char *name, uint64_t bytes)
{
	struct file *file;

	(void)folder;
	engine_point("create", 0);
	*store = (struct store){.file = -1};
	if (find(name) != NULL)
		return EEXIST;
	file = make_file(name, bytes);
	*store = (struct store){.memory = file->memory, .bytes = bytes, .file = open_handle(file)};
	return 0;
}

int store_open(struct store *store, const char *folder, const char *name, uint64_t least_bytes)
{
	struct file *file;

	(void)folder;
	engine_point("open", 0);
	*store = (struct store){.file = -1};
	file = find(name);
	if (file == NULL)
		return ENOENT;
	if (file->bytes < least_bytes)
		return ENOTSUP;
	*store = (struct store){
		.memory = file->memory, .bytes = file->bytes, .file = open_handle(file)};
	return 0;
}

/* Sometimes there is no room. */
int store_reserve(struct store *store, uint64_t at, uint64_t bytes)
{
	const struct file *file = all.handles[store->file].file;

	engine_point("reserve", 0);
	if (at + bytes > file->bytes)
		abort();
	return all.is_full_at_times && at > 0 && engine_random(4) == 0 ? ENOSPC : 0;
}

void store_release(struct store *store, uint64_t at, uint64_t bytes)
{
	engine_point("release", 0);
	memory_forget((unsigned char *)store->memory + at, bytes);
	memset((unsigned char *)store->memory + at, 0, bytes);
}

bool store_has_holes(const struct store *store, uint64_t bytes)
{
	(void)store;
	(void)bytes;
	return false;
}

void store_close(struct store *store)
{
	engine_point("close", 0);
	if (store->memory != NULL)
		close_handle(store->file);
	*store = (struct store){.file = -1};
}

void store_use_large_page(void *memory, uint64_t bytes, uint64_t number)
{
	(void)number;
	(void)memory;
	(void)bytes;
}

int store_rename(const char *folder, const char *from, const char *to)
{
	struct file *source, *target;

	(void)folder;
	engine_point("rename", 0);
	source = find(from);
	target = find(to);
	if (source == NULL)
		return ENOENT;
	if (target == source)
		return 0;
	if (target != NULL) {
		target->name[0] = '\0';
		drop_if_unused(target);
	}
	strncpy(source->name, to, sizeof(source->name) - 1);
	return 0;
}

int store_remove(const char *folder, const char *name)
{
	struct file *file;

	(void)folder;
	engine_point("remove", 0);
	file = find(name);
	if (file == NULL)
		return ENOENT;
	file->name[0] = '\0';
	drop_if_unused(file);
	return 0;
}

bool store_is_named(const struct store *store, const char *folder, const char *name)
{
	const struct file *file = all.handles[store->file].file;

	(void)folder;
	engine_point("stat", 0);
	return file->name[0] == '\0' ? file->opens == 1 : find(name) == file;
}

int store_lock(const char *folder, bool may_wait, int *lock)
{
	(void)folder;
	engine_point("lock", 0);
	while (all.locked != 0) {
		if (!may_wait)
			return EWOULDBLOCK;
		engine_wait();
	}
	*lock = (int)engine_process();
	all.locked = 1 + engine_process();
	return 0;
}

void store_unlock(int lock)
{
	if (lock < 0)
		return;
	all.locked = 0;
	engine_wake();
}

bool store_lock_shared(struct store *store, bool may_wait)
{
	(void)store;
	(void)may_wait;
	return true;
}

void store_unlock_shared(struct store *store)
{
	(void)store;
}

bool store_take_lane(struct store *store, unsigned lane)
{
	struct file *file = all.handles[store->file].file;

	engine_point("lock", 0);
	if (file->name[0] == '\0' && file->opens == 1)
		return true;
	if (lane >= LANES || file->lane_owner[lane] != 0)
		return false;
	file->lane_owner[lane] = (unsigned)store->file + 1;
	return true;
}

void store_free_lane(struct store *store, unsigned lane)
{
	all.handles[store->file].file->lane_owner[lane] = 0;
}

int store_random(void *bytes, size_t count)
{
	memset(bytes, 1, count);
	return 0;
}

/* ---- the explorer's side ---- */

void files_kill(unsigned process)
{
	all.is_full_at_times = false;
	if (all.locked == 1 + process) {
		all.locked = 0;
		engine_wake();
	}
	for (int i = 0; i < HANDLES; i++)
		if (all.handles[i].file != NULL && all.handles[i].process == process)
			close_handle(i);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (all.blocks[i].memory != NULL && all.blocks[i].process == process)
			free_block(&all.blocks[i]);
}

void files_reset(void)
{
	all.locked = 0;
	for (unsigned i = 0; i < HANDLES; i++)
		if (all.handles[i].file != NULL)
			close_handle((int)i);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (all.blocks[i].memory != NULL)
			free_block(&all.blocks[i]);
	for (unsigned i = 0; i < FILES; i++)
		if (all.files[i].memory != NULL) {
			all.files[i].name[0] = '\0';
			drop_if_unused(&all.files[i]);
		}
}

void files_fill_disk(bool is_full_at_times)
{
	all.is_full_at_times = is_full_at_times;
}

void *files_table(size_t *bytes)
{
	struct file *file = find("throttle.table");

	*bytes = file != NULL ? file->bytes : 0;
	return file != NULL ? file->memory : NULL;
}
