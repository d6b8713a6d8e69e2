"""When is it gone? One answer, from the plans that the maintenance of a log makes.

1. `upkeep`: how a log is maintained, by settings, policies, and what holds it.
2. `cleanings`: when it will be cleaned, and how far: asked of `plan_roll` and `plan_compaction`.
3. `removals`: what removes each record, and when; also the files outside of the live segments.
4. `verdict`: what became of a request, by what is left and its deadline.
5. `countdown`: that by topic and by log, for sensors and pages.
6. `suggestions`: which setting would make a deadline.

A search (`logwright.erasure.find`) has the answer in each of its findings; `find`, the end of an
erasure, certificates, the countdown and the asset checks only add up findings
(docs/adr/0042-one-outlook.md).
"""
