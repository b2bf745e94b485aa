/*
 * `sluice semaphore hold`: runs a command while this process holds a slot.
 *
 *   holder_take --none is free: again, with --wait--> ...
 *      `--> command, by lock_keeper.h --> every second holder_check: the slot is ours, and the
 *           command may run on for as long as a node would use the slot without another look
 *
 * A slot that is lost (the connection, or the queue was deleted) is not taken again: another may
 * have held it meanwhile. The command is terminated then. A slot that was removed stays ours until
 * the command ends, as for a node's requests.
 */
#ifndef CLI_LOCK_SEMAPHORE_HOLD_H
#define CLI_LOCK_SEMAPHORE_HOLD_H

#include "conf/conf.h"

struct semaphore_call;

/* Returns the exit status: the command's own, or one of semaphore.h and lock_command.h. */
int semaphore_hold_run(const struct semaphore_call *call, const struct conf *conf,
	const struct conf_semaphore *semaphore);

#endif
