// Shape of the machine that an image is built for. `nicforge spin build` sets the first two from
// the machine's specification.
#pragma once

#ifndef NB_CLUSTERS
#define NB_CLUSTERS 4
#endif
#ifndef NB_CORES
#define NB_CORES 8
#endif
#define CORE_COUNT (NB_CORES * NB_CLUSTERS)
#define NUM_CLUSTER_HPUS NB_CORES
#define PacketQueueLength (4 * 1024 * 1024 - 12)
#ifndef PKT_SIZE
#define PKT_SIZE 1024
#endif
