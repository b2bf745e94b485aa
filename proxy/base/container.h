/* From an embedded member back to the struct that embeds it. */
#ifndef BASE_CONTAINER_H
#define BASE_CONTAINER_H

#include <stddef.h>

/* The `type` whose field `member` is at `pointer`, which must not be NULL. */
#define CONTAINER_OF(pointer, type, member)                                                        \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
