#include "websocket/send_queue.h"

#include <assert.h>
#include <stdlib.h>

/* ---- items ----------------------------------------------------------------------------------- */

static void finish_item(struct send_item *item, enum send_result result)
{
	struct send_report *report = item->report;
	struct node_sends *budget = item->frame->budget;

	shared_frame_release(item->frame);
	free(item);
	node_sends_give(budget, sizeof(*item));
	if (report)
		report->tell(report, result);
}

static void uncount(struct send_queue *queue, const struct send_item *item)
{
	queue->messages--;
	queue->bytes -= item->frame->bytes;
}

static struct send_item *take_first(struct send_line *line)
{
	struct send_item *item = line->first;

	line->first = item->next;
	if (!line->first)
		line->end = &line->first;
	line->messages--;
	line->bytes -= item->frame->bytes;
	return item;
}

/* ---- the queue ------------------------------------------------------------------------------- */

void send_queue_init(struct send_queue *queue)
{
	*queue = (struct send_queue){0};
	for (unsigned lane = 0; lane < SEND_LANES; lane++)
		queue->lanes[lane].end = &queue->lanes[lane].first;
}

void send_queue_clear(struct send_queue *queue)
{
	for (unsigned lane = 0; lane < SEND_LANES; lane++) {
		while (queue->lanes[lane].first) {
			struct send_item *item = take_first(&queue->lanes[lane]);
			uncount(queue, item);
			finish_item(item, SEND_GONE);
		}
	}
}

void send_queue_end(struct send_queue *queue)
{
	send_queue_clear(queue);
	if (queue->current)
		finish_item(queue->current, SEND_GONE);
	send_queue_init(queue);
}

static bool fits(
	uint32_t messages, uint64_t bytes, const struct send_bounds *bounds, size_t frame_bytes)
{
	return messages < bounds->messages && bytes <= bounds->bytes &&
	       frame_bytes <= bounds->bytes - bytes;
}

bool send_queue_fits(
	const struct send_queue *queue, const struct send_bounds *bounds, size_t frame_bytes)
{
	return fits(queue->messages, queue->bytes, bounds, frame_bytes);
}

bool send_queue_can_fit(
	const struct send_queue *queue, const struct send_bounds *bounds, size_t frame_bytes)
{
	const struct send_line *normal = &queue->lanes[SEND_NORMAL];

	return fits(queue->messages - normal->messages, queue->bytes - normal->bytes, bounds,
		frame_bytes);
}

bool send_queue_add(struct send_queue *queue, enum send_lane lane, struct shared_frame *frame,
	struct send_report *report)
{
	struct send_line *line = &queue->lanes[lane];
	struct send_item *item;

	if (!node_sends_take(frame->budget, sizeof(*item)))
		return false;
	item = malloc(sizeof(*item));
	if (!item) {
		node_sends_give(frame->budget, sizeof(*item));
		return false;
	}
	*item = (struct send_item){.frame = shared_frame_hold(frame), .report = report};
	*line->end = item;
	line->end = &item->next;
	line->messages++;
	line->bytes += frame->bytes;
	queue->messages++;
	queue->bytes += frame->bytes;
	return true;
}

bool send_queue_drop_oldest(struct send_queue *queue)
{
	struct send_line *line = &queue->lanes[SEND_NORMAL];

	if (!line->first)
		return false;
	struct send_item *item = take_first(line);
	uncount(queue, item);
	finish_item(item, SEND_DROPPED);
	return true;
}

/* ---- in order -------------------------------------------------------------------------------- */

/* A lane's turn, when these are first in them and so many of the high lane came before. */
static enum send_lane choose(
	const struct send_item *const first[SEND_LANES], uint32_t high_run, uint32_t high_burst)
{
	if (!first[SEND_HIGH])
		return SEND_NORMAL;
	return first[SEND_NORMAL] && high_run >= high_burst ? SEND_NORMAL : SEND_HIGH;
}

static uint32_t run_after(enum send_lane lane, uint32_t high_run)
{
	if (lane == SEND_NORMAL)
		return 0;
	return high_run < UINT32_MAX ? high_run + 1 : high_run;
}

/* Fills one piece, of at most `*room` bytes, which it counts down. */
static void fill(struct iovec *piece, struct shared_frame *frame, size_t taken, size_t *room)
{
	size_t left = frame->bytes - taken;

	*piece = (struct iovec){frame->at + taken, left < *room ? left : *room};
	*room -= piece->iov_len;
}

int send_queue_peek(const struct send_queue *queue, uint32_t high_burst, struct iovec *pieces,
	int most, size_t bytes_most)
{
	const struct send_item *first[SEND_LANES] = {
		queue->lanes[SEND_NORMAL].first, queue->lanes[SEND_HIGH].first};
	uint32_t high_run = queue->high_run;
	size_t room = bytes_most;
	int count = 0;

	if (queue->current)
		fill(&pieces[count++], queue->current->frame, queue->taken, &room);
	while (count < most && room > 0 && (first[SEND_NORMAL] || first[SEND_HIGH])) {
		enum send_lane lane = choose(first, high_run, high_burst);
		fill(&pieces[count++], first[lane]->frame, 0, &room);
		high_run = run_after(lane, high_run);
		first[lane] = first[lane]->next;
	}
	return count;
}

/* The next in order becomes `current`. */
static void begin_next(struct send_queue *queue, uint32_t high_burst)
{
	const struct send_item *const first[SEND_LANES] = {
		queue->lanes[SEND_NORMAL].first, queue->lanes[SEND_HIGH].first};
	enum send_lane lane = choose(first, queue->high_run, high_burst);

	assert(first[lane]);
	queue->current = take_first(&queue->lanes[lane]);
	queue->taken = 0;
	queue->high_run = run_after(lane, queue->high_run);
}

struct send_taken send_queue_took(struct send_queue *queue, uint32_t high_burst, size_t bytes)
{
	struct send_taken done = {0};

	while (bytes > 0) {
		if (!queue->current)
			begin_next(queue, high_burst);
		struct send_item *item = queue->current;
		size_t left = item->frame->bytes - queue->taken;
		if (bytes < left) {
			queue->taken += bytes;
			break;
		}
		bytes -= left;
		queue->current = NULL;
		queue->taken = 0;
		uncount(queue, item);
		done.messages++;
		done.payload_bytes += item->frame->payload_bytes;
		finish_item(item, SEND_WRITTEN);
	}
	return done;
}
