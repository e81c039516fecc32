// Handlers for PULP chips include this name. Nothing of that chip's SDK is needed here.
#pragma once
