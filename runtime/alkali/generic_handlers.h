/* SPDX-License-Identifier: 0BSD */
#include "alkali.h"
