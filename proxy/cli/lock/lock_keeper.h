/*
 * The process that has the command of `sluice lock` (or `sluice semaphore hold`) and ends it: it
 * lives as long as `sluice lock` and the command, and looks only at them and the clock.
 *
 *   sluice lock --RUN, LIVE, SIGNAL, END--> keeper --> command, in a process group of its own
 *               <----- FAILED, ENDED ------
 *
 * The command may run until a time that `sluice lock` moves on with each renewal; if that is over
 * when the keeper reads of it, the command does not begin before the next one. If none comes,
 * because `sluice lock` was stopped, the command is stopped too (SIGSTOP), with all its
 * descendants, and goes on with the next one. If `sluice lock` has ended, the command is killed at
 * once, with all its descendants: those that left its process group become the keeper's children
 * (PR_SET_CHILD_SUBREAPER). If the keeper is killed, so is the command (PR_SET_PDEATHSIG), and its
 * descendants become children of `sluice lock`, which kills them before it releases the lock. If
 * both are killed in the same moment, the command dies, but descendants that left its group go on.
 * Processes that the command leaves running when it ends by itself are not touched.
 */
#ifndef CLI_LOCK_LOCK_KEEPER_H
#define CLI_LOCK_LOCK_KEEPER_H

#include <stdint.h>
#include <sys/types.h>

#include "store/lock.h"

enum keeper_order_kind {
	KEEPER_RUN,    /* number: the fence, or the slot of a semaphore */
	KEEPER_LIVE,   /* the same, with another time */
	KEEPER_SIGNAL, /* number: of the signal */
	KEEPER_END,    /* number: milliseconds from TERM to KILL */
};

struct keeper_order {
	uint64_t kind, number;
	uint64_t until_ns;                /* of RUN and LIVE: by clock_boot_ns */
	char session[LOCK_SESSION_BYTES]; /* of RUN and LIVE; "": of a semaphore */
};

enum keeper_report_kind {
	KEEPER_STARTED, /* number: the command's process */
	KEEPER_FAILED,  /* number: an errno value; it was not executed */
	KEEPER_ENDED,   /* number: its status, as waitpid has it */
};

struct keeper_report {
	uint64_t kind;
	int64_t number;
};

/* Forks it, before the process has threads. `command` ends with NULL. Returns the descriptor for
 * orders and reports (one a packet; its end is the keeper's), or -1 with errno. */
int keeper_start(char **command, pid_t *keeper);

#endif
