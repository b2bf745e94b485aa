/* The functions that the store runs (Makefile.inc lists them) as they are loaded into it;
 * made from these files when sluice is built. */
#ifndef STORE_FUNCTION_TEXTS_H
#define STORE_FUNCTION_TEXTS_H

#include <stddef.h>

#define FUNCTION_TEXTS 7

struct function_text {
	const char *text;
	size_t len;
};

extern const struct function_text function_texts[FUNCTION_TEXTS];

#endif
