#include "http2/h2_source.h"

#include <stdlib.h>
#include <string.h>

/* At the begin of a pool's block. */
struct h2_block {
	struct h2_block *next;
	uint32_t start, end, capacity;
	char bytes[];
};

static struct h2_source *of(struct body_source *source)
{
	_Static_assert(offsetof(struct h2_source, source) == 0, "it begins with its source");
	return (struct h2_source *)source;
}

static size_t here(const struct body_source *source)
{
	const struct h2_source *s = (const struct h2_source *)source;

	return (size_t)s->here - s->lent;
}

/* All of it is lent, and its end has come. */
static bool note_end(struct h2_source *s)
{
	s->source.ended = s->came_whole && here(&s->source) == 0;
	if (s->source.ended)
		s->source.trailers = (struct slice){s->trailers, s->trailers_len};
	return s->source.ended;
}

/* The rest of the length is counted by what was lent. */
static bool lend(struct body_source *source, size_t most, struct slice *run)
{
	struct h2_source *s = of(source);
	struct h2_block *block = s->first;
	size_t len = block ? block->end - block->start : 0;

	if (len > most)
		len = most;
	*run = (struct slice){block ? block->bytes + block->start : NULL, len};
	s->lent = (uint32_t)len;
	source->left -= source->left < len ? source->left : len;
	note_end(s);
	return true;
}

static struct buffer take_first(struct h2_source *s)
{
	struct h2_block *block = s->first;

	s->first = block->next;
	if (!s->first)
		s->last = NULL;
	return (struct buffer){(char *)block, 0, 0, (uint32_t)sizeof(*block) + block->capacity};
}

static void drop_first(struct h2_source *s)
{
	struct buffer buffer = take_first(s);

	buffer_release(&buffer, s->pool);
}

void h2_source_give(struct h2_source *s, struct buffer *kept)
{
	if (s->lent == 0)
		return;
	s->here -= s->lent;
	s->lent = 0;
	*kept = take_first(s);
}

static void release(struct body_source *source)
{
	struct h2_source *s = of(source);
	uint32_t bytes = s->lent;

	if (bytes == 0)
		return;
	s->lent = 0;
	s->here -= bytes;
	s->first->start += bytes;
	if (s->first->start == s->first->end)
		drop_first(s);
	s->credit(s, bytes);
}

static enum body_fetch fetch(struct body_source *source, unsigned *turns)
{
	struct h2_source *s = of(source);

	(void)turns; /* what is here is bounded by the window */
	if (here(source) > 0)
		return BODY_FETCHED;
	if (note_end(s))
		return BODY_FETCHED;
	return s->is_cut ? BODY_CUT : BODY_NOT_NOW;
}

/* What comes wakes the stream. */
static void read_again(struct body_source *source)
{
	(void)source;
}

static bool take_back(struct body_source *source, uint32_t bytes)
{
	struct h2_source *s = of(source);

	if (bytes > s->lent)
		return false;
	if (s->has_length)
		source->left += bytes;
	s->lent -= bytes;
	source->ended = false;
	return true;
}

void h2_source_init(struct h2_source *s, struct buffer_pool *pool,
	void (*credit)(struct h2_source *source, size_t bytes))
{
	static const struct body_source_calls calls = {
		here, lend, release, fetch, read_again, take_back};

	*s = (struct h2_source){.source.calls = &calls, .pool = pool, .credit = credit};
}

void h2_source_end(struct h2_source *s)
{
	while (s->first)
		drop_first(s);
	s->here = s->lent = 0;
	free(s->trailers);
	s->trailers = NULL;
	s->trailers_len = 0;
}

struct body_source *h2_source_open(struct h2_source *s, bool has_length, uint64_t length)
{
	s->has_length = has_length;
	s->source.left = has_length ? length : 0;
	note_end(s);
	s->is_open = true;
	return &s->source;
}

static bool add_block(struct h2_source *s)
{
	struct buffer buffer;

	if (!buffer_acquire(&buffer, s->pool))
		return false;
	struct h2_block *block = (struct h2_block *)(void *)buffer.at;
	*block = (struct h2_block){.capacity = buffer.capacity - (uint32_t)sizeof(*block)};
	*(s->last ? &s->last->next : &s->first) = block;
	s->last = block;
	return true;
}

bool h2_source_put(struct h2_source *s, const uint8_t *bytes, size_t len)
{
	s->total += len;
	while (len > 0) {
		struct h2_block *block = s->last;
		if ((!block || block->end == block->capacity) && !add_block(s))
			return false;
		block = s->last;
		size_t part = block->capacity - block->end;
		if (part > len)
			part = len;
		memcpy(block->bytes + block->end, bytes, part);
		block->end += (uint32_t)part;
		s->here += part;
		bytes += part;
		len -= part;
	}
	return true;
}

bool h2_source_put_trailers(struct h2_source *s, struct slice lines)
{
	if (lines.len == 0)
		return true;
	s->trailers = malloc(lines.len);
	if (!s->trailers)
		return false;
	memcpy(s->trailers, lines.at, lines.len);
	s->trailers_len = (uint32_t)lines.len;
	return true;
}
