/* judge.lua as it is loaded into the store; made from it when sluice is built. */
#ifndef FLEET_JUDGE_TEXT_H
#define FLEET_JUDGE_TEXT_H

#include <stddef.h>

extern const char judge_text[];
extern const size_t judge_text_len;

#endif
