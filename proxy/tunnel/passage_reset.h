/*
 * A reset of one side of a tunnel reaches the other as a reset, so that what was cut off does not
 * look complete (RFC 9293 section 3.5.3). A close by reset throws away what the other side has not
 * taken yet: it waits for that, and looks from time to time, as no system reports it.
 *
 *   reset --passage_reset--> bytes are on their way --taken, no progress, gone--> reset, ended
 *                                     `-- looks: by the clock, and at its events
 */
#ifndef TUNNEL_PASSAGE_RESET_H
#define TUNNEL_PASSAGE_RESET_H

#include <stdbool.h>

struct passage;
struct stream;

/* Nothing more passes: `to`, a side of the passage, is reset, at once or when it has taken what was
 * written to it. `why` as for passage_end. May end the passage. */
void passage_reset(struct passage *passage, struct stream *to, const char *why);

/* Of one with such a reset: has it been taken? `is_due`: its deadline has passed. May end the
 * passage. */
void passage_reset_look(struct passage *passage, bool is_due);

#endif
