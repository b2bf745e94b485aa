/* sluice sockets: lists WebSockets, sends to them and ends them. */
#ifndef CLI_OPERATE_SOCKETS_H
#define CLI_OPERATE_SOCKETS_H

#include "cli/call.h"

/* Without words a list; an id; or an operation, an id or `all`, and a text. An exit status: 1 where
 * there is no such socket. */
int cli_sockets(struct call *call);

#endif
