/* Which signals a thread other than the main one leaves to that. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <signal.h>

/* All signals but those that report a fault of the thread itself: if they are blocked when they are
 * raised, the process ends without the handlers that sanitizers and crash reporters install. */
static inline void signals_fill_but_faults(sigset_t *set)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

	sigfillset(set);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(set, faults[i]);
}

#endif
