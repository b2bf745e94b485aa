/* What several answers contain, as JSON. */
#ifndef ADMIN_JSON_TEXT_H
#define ADMIN_JSON_TEXT_H

#include <jansson.h>

#include "queue/queue.h"

/* A string of `text`. JSON is UTF-8, but keys of callers and names of files are bytes: of a text
 * that is not UTF-8, each byte that is not ASCII becomes U+FFFD. NULL without memory. */
json_t *admin_json_text(const char *text);

/* The counts of a queue. NULL without memory. */
json_t *admin_json_queue(struct queue *queue);

#endif
