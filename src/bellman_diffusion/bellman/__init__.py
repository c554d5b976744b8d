"""The Bellman equation on the fields: backups, return laws, exact solutions, planning (Appendix D)."""
