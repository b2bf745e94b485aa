/*
 * Memory of one size that is free and is kept for the next user, up to a bound. Of one thread.
 *
 *   spare_take, or malloc --> in use --spare_give--> the list, or the heap when it has `most`
 */
#ifndef BASE_SPARE_LIST_H
#define BASE_SPARE_LIST_H

#include <stdlib.h>
#include <string.h>

/* Zeroed: empty. Each item begins with the address of the next. */
struct spare_list {
	void *first;
	unsigned count;
};

/* The item given last, as it was but for its first bytes, where an address was. NULL: empty. */
static inline void *spare_take(struct spare_list *list)
{
	void *item = list->first;

	if (!item)
		return NULL;
	memcpy(&list->first, item, sizeof(list->first));
	list->count--;
	return item;
}

static inline void spare_give(struct spare_list *list, void *item, unsigned most)
{
	if (list->count >= most) {
		free(item);
		return;
	}
	memcpy(item, &list->first, sizeof(list->first));
	list->first = item;
	list->count++;
}

static inline void spare_clear(struct spare_list *list)
{
	while (list->first)
		free(spare_take(list));
}

#endif
