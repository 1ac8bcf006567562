"""The one small change that makes a wrong answer right: `search.one_change` tries it on the answer's own source."""
