#include "admin/doorman.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/list.h"

struct visitor {
	struct visitor *prev, *next;
	int fd; /* -1: cut, and no longer in the list */
};

static void append(struct doorman *doorman, struct visitor *visitor)
{
	LIST_APPEND(doorman->first, doorman->last, visitor, prev, next);
	doorman->count++;
}

static void take_out(struct doorman *doorman, struct visitor *visitor)
{
	LIST_REMOVE(doorman->first, doorman->last, visitor, prev, next);
	doorman->count--;
}

struct visitor *doorman_enter(struct doorman *doorman, int fd)
{
	struct visitor *visitor = malloc(sizeof(*visitor)), *cut = doorman->first;

	if (!visitor)
		return NULL;
	visitor->fd = fd;
	append(doorman, visitor);
	if (doorman->count > doorman->most) {
		/* The server sees its end and closes it. */
		take_out(doorman, cut);
		shutdown(cut->fd, SHUT_RDWR);
		cut->fd = -1;
	}
	return visitor;
}

void doorman_served(struct doorman *doorman, struct visitor *visitor)
{
	if (!visitor || visitor->fd < 0)
		return;
	take_out(doorman, visitor);
	append(doorman, visitor);
}

void doorman_leave(struct doorman *doorman, struct visitor *visitor)
{
	if (!visitor)
		return;
	if (visitor->fd >= 0)
		take_out(doorman, visitor);
	free(visitor);
}
