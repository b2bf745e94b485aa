#include "throttle/throttle.h"
typedef int throttle_not_empty;
