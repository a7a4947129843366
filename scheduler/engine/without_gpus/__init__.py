"""Jobs without GPUs: a line of their own for each project, beside the policy, which plans GPUs only."""
