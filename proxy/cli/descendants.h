/* The descendants of this process: its children, theirs, and so on, whatever groups and sessions
 * they are of. As /proc has them; of another's that end or begin meanwhile some may be missed. */
#ifndef CLI_DESCENDANTS_H
#define CLI_DESCENDANTS_H

#include <stdbool.h>

/* Sends all of them the signal, parents before their children. False: there was none. */
bool descendants_signal(int number);

#endif
