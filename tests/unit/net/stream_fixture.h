/* Tests over each kind of transport (ends.h): a stream with a buffer, and a second loop. */
#ifndef UNIT_NET_STREAM_FIXTURE_H
#define UNIT_NET_STREAM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "ends.h"
#include "net/stream.h"

#define BUFFER_BYTES 64

struct fixture {
	struct loop turn, other_turn;
	struct stream_loop streams, other_streams;
	struct buffer_pool pool;
	struct buffer buffer;
	struct ends ends;
};

struct fixture_case {
	const char *name;
	void (*run)(void **state);
};

#define FIXTURE_CASE(function)                                                                     \
	{                                                                                          \
#function, function                                                                \
	}

/* Runs each case over each kind. A group's failures. */
int fixture_run(const struct fixture_case *cases, size_t count);

struct fixture *fixture_begin(void **state);

void fixture_end(struct fixture *f);

void fixture_send(struct ends *ends, const char *bytes, size_t len);

enum stream_result fixture_read_once(struct fixture *f);

enum stream_result fixture_write(struct stream *stream, const char *text);

void fixture_await(struct fixture *f);

/* Reads once; a faulty transport may need more than one try to say what it has. */
enum stream_result fixture_read(struct fixture *f);

/* The next bytes are there, and no others; all come in one read where there are no faults. */
void fixture_read_bytes(struct fixture *f, size_t bytes);

/* Bytes may come in parts of a record: then nothing is known before the last one. */
bool fixture_comes_in_parts(const struct fixture *f);

bool fixture_knows(struct fixture *f, bool (*claim)(struct stream *stream));

/* All of it, in one write where there are no faults. */
void fixture_write_whole(struct fixture *f, struct stream *stream, const char *text);

#endif
