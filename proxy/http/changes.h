/*
 * The fields that a configuration sets and removes, in whatever writes a head.
 *
 *   what came    fields that are touched are left out
 *   our own      http_changes_filter takes touched ones out of what was just written
 *   then         http_changes_put writes what is set
 *
 * A listener and a route may both have changes; the route's come first where they name the same.
 */
#ifndef HTTP_CHANGES_H
#define HTTP_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "conf/conf.h"
#include "http/field_sink.h"

struct http_changes {
	const struct conf_fields *set, *listener_set; /* NULL: none */
	const struct conf_text_list *removed, *listener_removed;
};

static inline bool http_changes_any(const struct http_changes *changes)
{
	return (changes->set && changes->set->count > 0) ||
	       (changes->removed && changes->removed->count > 0) ||
	       (changes->listener_set && changes->listener_set->count > 0) ||
	       (changes->listener_removed && changes->listener_removed->count > 0);
}

/* Is the field set or removed? */
bool http_changes_touch(const struct http_changes *changes, struct slice name);

/* Takes the touched ones out of the fields between `begin` and the cursor. */
void http_changes_filter(struct field_sink *sink, char *begin, const struct http_changes *changes);

/* Puts each field that is set, but for those whose names are `kept`. */
void http_changes_put(struct field_sink *sink, const struct http_changes *changes,
	bool (*kept)(struct slice name));

/* How long these fields are at most. */
size_t http_changes_bytes(const struct http_changes *changes);

#endif
