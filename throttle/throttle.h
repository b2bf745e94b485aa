#ifndef THROTTLE_H
#define THROTTLE_H
#endif
