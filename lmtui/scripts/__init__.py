"""LMDeploy's script command lines: their flags become configs, and their runs become the scripts' tables and files."""
