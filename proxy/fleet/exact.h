/* `fleet = exact`: each verdict is the store's (judge.lua). Private to the fleet. */
#ifndef FLEET_EXACT_H
#define FLEET_EXACT_H

#include "fleet/way.h"

struct answer_limit;
struct question;

extern const struct way exact_way;

struct fleet_batch;

/* The limits of the question's part go into the batch, as one operation. */
void exact_ask(struct fleet_batch *filling, struct question *question);
/* It was answered (an answer for each of them), or never will be (NULL). */
void exact_answered(struct question *question, const struct answer_limit *answers);

#endif
