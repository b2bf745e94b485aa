/*
 * Doubly linked lists through two fields of their elements, whose names are `prev` and `next`
 * below. Macros, so that elements keep their types; they evaluate their arguments several times. An
 * element that is removed keeps its two fields, so that a loop which is at it goes on.
 *
 *   LIST: `first` and `last` are its ends, NULL while it is empty.
 *   CHAIN: only `first`; new elements come first.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stddef.h>

/* Before the element `before`, or at the end where that is NULL. */
#define LIST_INSERT(first, last, element, before, prev, next)                                      \
	do {                                                                                       \
		(element)->next = (before);                                                        \
		(element)->prev = (element)->next ? (element)->next->prev : (last);                \
		*((element)->prev ? &(element)->prev->next : &(first)) = (element);                \
		*((element)->next ? &(element)->next->prev : &(last)) = (element);                 \
	} while (0)

#define LIST_APPEND(first, last, element, prev, next)                                              \
	LIST_INSERT(first, last, element, NULL, prev, next)

#define LIST_REMOVE(first, last, element, prev, next)                                              \
	do {                                                                                       \
		*((element)->prev ? &(element)->prev->next : &(first)) = (element)->next;          \
		*((element)->next ? &(element)->next->prev : &(last)) = (element)->prev;           \
	} while (0)

#define CHAIN_PUSH(first, element, prev, next)                                                     \
	do {                                                                                       \
		(element)->prev = NULL;                                                            \
		(element)->next = (first);                                                         \
		if ((element)->next)                                                               \
			(element)->next->prev = (element);                                         \
		(first) = (element);                                                               \
	} while (0)

#define CHAIN_REMOVE(first, element, prev, next)                                                   \
	do {                                                                                       \
		*((element)->prev ? &(element)->prev->next : &(first)) = (element)->next;          \
		if ((element)->next)                                                               \
			(element)->next->prev = (element)->prev;                                   \
	} while (0)

#endif
