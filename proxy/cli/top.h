/* `sluice top`: what a running sluice does, on one screen that is drawn again every two seconds. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cli/call.h"

/* Until `q`, Ctrl-C or an error; once when the output is no terminal, and with --json,
 * which prints what the screen is made of. An exit status. */
int cli_top(struct call *call);

#endif
