#include "admin/json_text.h"

#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

json_t *admin_json_text(const char *text)
{
	json_t *string = json_string(text);

	if (string)
		return string;
	size_t len = strlen(text), used = 0;
	char *shown = malloc(len * strlen(REPLACEMENT) + 1);
	if (!shown)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < 0x80) {
			shown[used++] = text[i];
		} else {
			memcpy(shown + used, REPLACEMENT, strlen(REPLACEMENT));
			used += strlen(REPLACEMENT);
		}
	}
	string = json_stringn(shown, used);
	free(shown);
	return string;
}

json_t *admin_json_queue(struct queue *queue)
{
	struct queue_counts counts;

	queue_count(queue, &counts);
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "sessions", (json_int_t)counts.sessions,
		"idle_sessions", (json_int_t)counts.idle_sessions, "queued",
		(json_int_t)counts.queued, "queued_bytes", (json_int_t)counts.queued_bytes,
		"in_flight", (json_int_t)counts.in_flight);
}
