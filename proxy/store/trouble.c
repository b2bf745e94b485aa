#include "store/trouble.h"

#include <stdio.h>
#include <string.h>

void trouble_init(struct trouble *trouble)
{
	*trouble = (struct trouble){0};
	pthread_mutex_init(&trouble->lock, NULL);
}

void trouble_end(struct trouble *trouble)
{
	pthread_mutex_destroy(&trouble->lock);
}

/* The store's words may be any bytes. */
static void write_why(struct trouble *trouble, const char *why)
{
	snprintf(trouble->why, sizeof(trouble->why), "%s", why);
	for (char *c = trouble->why; *c; c++) {
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
}

void trouble_note(
	struct trouble *trouble, struct trouble_mark *mark, const char *why, uint64_t now_ns)
{
	if (!why && !mark->is_set)
		return;
	pthread_mutex_lock(&trouble->lock);
	if (why && !mark->is_set && trouble->count++ == 0)
		trouble->since_ns = now_ns;
	if (!why)
		trouble->count--;
	if (why)
		write_why(trouble, why);
	mark->is_set = why != NULL;
	pthread_mutex_unlock(&trouble->lock);
}

void trouble_look(struct trouble *trouble, struct trouble_sight *sight)
{
	pthread_mutex_lock(&trouble->lock);
	*sight = (struct trouble_sight){.count = trouble->count, .since_ns = trouble->since_ns};
	memcpy(sight->why, trouble->why, sizeof(sight->why));
	pthread_mutex_unlock(&trouble->lock);
}
