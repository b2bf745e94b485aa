/* Spools: what goes in comes out, in order, whatever of it is in memory and in the file; bounds
 * hold, a full disk only makes them full, and all is given back. */
#include "spool/spool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../random.h"
#include "broken_reads.h"
#include "tests/unit/suite.h"

#define KIB 1024ULL
#define MIB (1024 * KIB)

struct fixture {
	struct spool_store store;
	char folder[64];
	char bytes[200 * 1024];
	uint64_t in, out; /* of the pattern */
};

static char pattern(uint64_t at)
{
	return (char)(at * 2654435761u >> 13);
}

static struct fixture *begin(uint64_t memory, uint64_t disk, unsigned files)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	strcpy(f->folder, "/tmp/test_spool.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	assert_true(store_init(&f->store, f->folder));
	f->store.files_max = files;
	store_set_bounds(&f->store, memory, disk);
	return f;
}

/* Nothing of the store is in use, and no file is left in the folder. */
static void end(struct fixture *f)
{
	assert_int_equal(f->store.memory, 0);
	assert_int_equal(f->store.disk, 0);
	assert_int_equal(f->store.files, 0);
	store_end(&f->store);
	assert_int_equal(rmdir(f->folder), 0);
	free(f);
}

static size_t put(struct fixture *f, struct spool *spool, size_t count)
{
	assert_true(count <= sizeof(f->bytes));
	for (size_t i = 0; i < count; i++)
		f->bytes[i] = pattern(f->in + i);
	count = spool_put(spool, (struct slice){f->bytes, count});
	f->in += count;
	assert_int_equal(spool_bytes(spool), f->in - f->out);
	return count;
}

/* Takes at most `most` bytes off the front. */
static size_t take(struct fixture *f, struct spool *spool, size_t most)
{
	struct slice run = spool_front(spool);

	if (run.len > most)
		run.len = most;
	for (size_t i = 0; i < run.len; i++)
		assert_int_equal(run.at[i], pattern(f->out + i));
	f->out += run.len;
	assert_true(spool_drop(spool, run.len));
	assert_int_equal(spool_bytes(spool), f->in - f->out);
	return run.len;
}

static void take_all(struct fixture *f, struct spool *spool)
{
	while (take(f, spool, SIZE_MAX) > 0)
		;
	assert_int_equal(f->in, f->out);
}

static void memory_only(void **state)
{
	struct fixture *f = begin(MIB, MIB, 10);
	struct spool *spool =
		spool_new(&f->store, (struct spool_limits){100 * KIB, 0, SPOOL_REQUEST});

	(void)state;
	assert_int_equal(f->store.memory, 0);
	assert_int_equal(spool_front(spool).len, 0);
	assert_int_equal(put(f, spool, 1), 1);
	assert_true(f->store.memory <= 4 * KIB);
	assert_int_equal(put(f, spool, 150 * KIB), 100 * KIB - 1);
	assert_int_equal(spool_room(spool, 1), 0);
	assert_int_equal(spool_space(spool), 0);
	assert_int_equal(f->store.files, 0);
	take_all(f, spool);
	assert_int_equal(f->store.memory, 0);
	spool_free(spool);
	spool_free(NULL);
	end(f);
}

static void then_a_file(void **state)
{
	struct fixture *f = begin(MIB, 10 * MIB, 10);
	struct spool *spool =
		spool_new(&f->store, (struct spool_limits){64 * KIB, 3 * MIB + 5, SPOOL_REQUEST});

	(void)state;
	while (put(f, spool, 100 * KIB) > 0)
		;
	assert_int_equal(spool_bytes(spool), 64 * KIB + 3 * MIB + 5);
	assert_int_equal(f->store.files, 1);
	assert_int_equal(f->store.disk, 3 * MIB + 5);
	/* The ring goes round: room at its start is used before its end is read. */
	for (int i = 0; i < 100; i++) {
		assert_true(take(f, spool, 100 * KIB) > 0);
		put(f, spool, 100 * KIB);
	}
	assert_true(f->store.memory <= 64 * KIB + 4 * KIB);
	assert_int_equal(f->store.disk, 3 * MIB + 5);
	take_all(f, spool);
	assert_false(spool_failed(spool));
	spool_free(spool);
	end(f);
}

static void freed_while_full(void **state)
{
	struct fixture *f = begin(MIB, 10 * MIB, 10);
	struct spool *spool =
		spool_new(&f->store, (struct spool_limits){64 * KIB, 2 * MIB, SPOOL_REQUEST});

	(void)state;
	while (put(f, spool, 100 * KIB) > 0)
		;
	spool_free(spool);
	end(f);
}

/* What one has taken of the store, another can't have; what it gives back, it can. */
static void shared_bounds(void **state)
{
	struct fixture *f = begin(64 * KIB, 2 * MIB, 1);
	struct spool_limits limits = {1 * MIB, 8 * MIB, SPOOL_REQUEST};
	struct spool *one = spool_new(&f->store, limits), *other = spool_new(&f->store, limits);
	char byte = 'x';

	(void)state;
	while (put(f, one, 100 * KIB) > 0)
		;
	assert_true(f->store.memory <= 64 * KIB);
	assert_int_equal(f->store.disk, 2 * MIB);
	assert_int_equal(spool_room(other, 1), 0);
	assert_int_equal(spool_put(other, (struct slice){&byte, 1}), 0);
	assert_false(spool_failed(other));
	take_all(f, one);
	spool_free(one);
	assert_int_equal(spool_put(other, (struct slice){&byte, 1}), 1);
	spool_free(other);
	end(f);
}

/* With all memory in use by others a spool works through its file alone. */
static void no_memory_left(void **state)
{
	struct fixture *f = begin(0, 8 * MIB, 10);
	struct spool *spool =
		spool_new(&f->store, (struct spool_limits){1 * MIB, 2 * MIB, SPOOL_REQUEST});

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(put(f, spool, 90 * KIB), 90 * KIB);
	assert_true(f->store.memory <= 16 * KIB);
	take_all(f, spool);
	spool_free(spool);
	end(f);
}

static void no_folder(void **state)
{
	struct fixture *f = begin(MIB, MIB, 10);
	struct spool *spool;

	(void)state;
	rmdir(f->folder);
	spool = spool_new(&f->store, (struct spool_limits){10 * KIB, MIB, SPOOL_REQUEST});
	assert_int_equal(put(f, spool, 20 * KIB), 10 * KIB);
	assert_int_equal(spool_room(spool, 1), 0);
	assert_false(spool_failed(spool));
	take_all(f, spool);
	spool_free(spool);
	assert_int_equal(f->store.files, 0);
	store_end(&f->store);
	assert_true(store_init(&f->store, NULL));
	store_set_bounds(&f->store, MIB, MIB);
	spool = spool_new(&f->store, (struct spool_limits){10 * KIB, MIB, SPOOL_REQUEST});
	assert_int_equal(put(f, spool, 20 * KIB), 10 * KIB);
	take_all(f, spool);
	spool_free(spool);
	store_end(&f->store);
	free(f);
}

/* As a disk that is full: the system refuses to reserve more than so much of any file. */
static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void full_disk(void **state)
{
	struct fixture *f = begin(MIB, 10 * MIB, 10);
	struct spool *spool =
		spool_new(&f->store, (struct spool_limits){64 * KIB, 8 * MIB, SPOOL_REQUEST});

	(void)state;
	limit_files(2 * MIB + MIB / 2);
	while (put(f, spool, 100 * KIB) > 0)
		;
	limit_files(RLIM_INFINITY);
	assert_int_equal(spool_bytes(spool), 64 * KIB + 2 * MIB);
	assert_false(spool_failed(spool));
	/* Somebody deleted something. */
	assert_int_equal(put(f, spool, 100 * KIB), 100 * KIB);
	take_all(f, spool);
	spool_free(spool);
	end(f);
}

/* Nothing else makes a write to reserved space fail but a disk that breaks. */
static void broken_disk(void **state)
{
	struct fixture *f = begin(MIB, 10 * MIB, 10);
	struct spool *spool =
		spool_new(&f->store, (struct spool_limits){64 * KIB, 8 * MIB, SPOOL_REQUEST});

	(void)state;
	while (spool_bytes(spool) < 264 * KIB)
		assert_int_equal(put(f, spool, 66 * KIB), 66 * KIB);
	limit_files(250 * KIB);
	put(f, spool, 100 * KIB);
	limit_files(RLIM_INFINITY);
	assert_true(spool_failed(spool));
	assert_int_equal(spool_room(spool, 1), 0);
	take_all(f, spool);
	spool_free(spool);
	end(f);
}

/* It is lost, and every call says so. */
static void assert_lost(struct spool *spool)
{
	char byte = 'x';

	assert_true(spool_is_lost(spool) && spool_failed(spool));
	assert_int_equal(spool_bytes(spool), 0);
	assert_int_equal(spool_space(spool), 0);
	assert_int_equal(spool_room(spool, 1), 0);
	assert_int_equal(spool_front(spool).len, 0);
	assert_int_equal(spool_put(spool, (struct slice){&byte, 1}), 0);
	assert_false(spool_drop(spool, 0));
}

/* What can't be read back is found when it is to come out, or at once where none is in memory. */
static void unreadable_disk(void **state)
{
	(void)state;
	for (int reads_at_once = 0; reads_at_once < 2; reads_at_once++) {
		struct fixture *f = begin(reads_at_once ? 0 : MIB, 10 * MIB, 10);
		struct spool *spool = spool_new(
			&f->store, (struct spool_limits){64 * KIB, 8 * MIB, SPOOL_REQUEST});
		broken_reads = EIO;
		size_t taken = spool_put(spool, (struct slice){f->bytes, 100 * KIB});
		assert_int_equal(taken, reads_at_once ? 0 : 100 * KIB);
		assert_int_equal(spool_is_lost(spool), reads_at_once);
		if (!reads_at_once) {
			struct slice run;
			do {
				run = spool_front(spool);
				assert_true(run.len > 0);
			} while (spool_drop(spool, run.len));
		}
		broken_reads = 0;
		assert_lost(spool);
		spool_free(spool);
		end(f);
	}
}

static void random_use(void **state)
{
	struct random random = random_begin("random puts and takes");

	(void)state;
	for (int life = 0; life < 60; life++) {
		struct fixture *f = begin(random_below(&random, 200 * KIB),
			random_below(&random, 4 * MIB), 1 + (unsigned)random_below(&random, 2));
		struct spool_limits limits = {random_below(&random, 100 * KIB),
			random_below(&random, 2 * MIB), SPOOL_REQUEST};
		struct spool *spool = spool_new(&f->store, limits);
		size_t bias = 1 + random_below(&random, 3);

		for (int i = 0; i < 300; i++) {
			size_t wanted = 1 + random_below(&random, 1 << random_below(&random, 18));
			if (wanted > sizeof(f->bytes))
				wanted = sizeof(f->bytes);
			if (random_below(&random, bias + 1) > 0) {
				size_t room = spool_room(spool, wanted);
				size_t got = put(f, spool, wanted);
				assert_true(room <= wanted && got >= room);
				assert_true((got == 0) == (room == 0));
			} else {
				while (wanted > 0) {
					size_t n = take(f, spool, wanted);
					if (n == 0)
						break;
					wanted -= n;
				}
			}
			assert_true(spool_bytes(spool) <= limits.memory + limits.file);
			assert_int_equal(spool_space(spool),
				limits.memory + limits.file - spool_bytes(spool));
			assert_true(f->store.disk <= f->store.disk_max);
			assert_true(f->store.memory <= f->store.memory_max + 16 * KIB);
			assert_true((spool_front(spool).len == 0) == (spool_bytes(spool) == 0));
		}
		if (random_below(&random, 2) == 0)
			take_all(f, spool);
		spool_free(spool);
		end(f);
	}
}

UNIT_SUITE(test_spool)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_only),
		cmocka_unit_test(then_a_file),
		cmocka_unit_test(freed_while_full),
		cmocka_unit_test(shared_bounds),
		cmocka_unit_test(no_memory_left),
		cmocka_unit_test(no_folder),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(broken_disk),
		cmocka_unit_test(unreadable_disk),
		cmocka_unit_test(random_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
