"""What `ctrnn train` does: one configuration, trained in one folder."""
