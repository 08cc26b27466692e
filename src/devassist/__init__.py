"""DevAssist: ReAct agents whose every decision is on record before it takes effect."""
