/* The descendants of this process: its children, theirs, and so on, whatever groups and sessions
 * they are of. As /proc has them; of another's that end or begin meanwhile some may be missed. */
#ifndef CLI_LOCK_DESCENDANTS_H
#define CLI_LOCK_DESCENDANTS_H

#include <stdbool.h>

/* Sends all of them the signal, parents before their children. False: there was none. */
bool descendants_signal(int number);
/* Kills all of them and reaps them, as they become children of this process, which has to be their
 * subreaper (PR_SET_CHILD_SUBREAPER). Waits for that for a second at most: one that waits for a
 * disk dies when the disk answers. */
void descendants_kill(void);

#endif
