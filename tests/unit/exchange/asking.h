/* A world of one host in which the test answers each question of an authority. */
#ifndef UNIT_EXCHANGE_ASKING_H
#define UNIT_EXCHANGE_ASKING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "asking_world.h"

extern struct world world;

/* Both authorities leave all questions pending; what is over in time is unavailable. */
struct host *asking_begin(void);
/* All clients leave; fails the test if anything is left. */
void asking_end(void);

/* The question under way; NULL: none. */
struct fake_question *asking_question(const struct job *job);
void asking_reply(struct job *job, enum fake_word word);
/* EXCHANGE_ENDED, too, when it is gone. */
enum exchange_state asking_state(const struct job *job);

#endif
