_octavia_hmsync()
{
  local cur prev words
  COMPREPLY=()
  _get_comp_words_by_ref -n : cur prev words

  # Command data:
  cmds='amphora cluster complete db distributor generation health help host image network order resize rollout sync upgrade zone'
  cmds_amphora='list show'
  cmds_amphora_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker --loadbalancer --role --status --result --not-adopted --health-manager --certificate-ends-within'
  cmds_amphora_show='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty'
  cmds_cluster='list member restore set show'
  cmds_cluster_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_cluster_member='drain list replace undrain'
  cmds_cluster_member_drain='-h --help --dry-run --reason --wait --timeout'
  cmds_cluster_member_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker --cluster --state --traffic'
  cmds_cluster_member_replace='-h --help --dry-run --reason --wait --timeout --cancel'
  cmds_cluster_member_undrain='-h --help --dry-run --reason --wait --timeout'
  cmds_cluster_restore='-h --help --dry-run --reason --wait --timeout --older-than'
  cmds_cluster_set='-h --help --dry-run --reason --wait --timeout --desired --min --cooldown --standby --manager'
  cmds_cluster_show='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty'
  cmds_complete='-h --help --name --shell'
  cmds_db='current history purge upgrade'
  cmds_db_current='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty'
  cmds_db_history='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --limit --marker'
  cmds_db_purge='-h --help --yes --force --dry-run --reason'
  cmds_db_upgrade='-h --help --dry-run --reason'
  cmds_distributor='drain instance list move resume show'
  cmds_distributor_drain='-h --help --dry-run --reason --wait --timeout'
  cmds_distributor_instance='delete list'
  cmds_distributor_instance_delete='-h --help --dry-run --reason --wait --timeout'
  cmds_distributor_instance_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_distributor_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_distributor_move='-h --help --dry-run --reason --wait --timeout --to'
  cmds_distributor_resume='-h --help --dry-run --reason'
  cmds_distributor_show='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty'
  cmds_generation='list rollback show'
  cmds_generation_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_generation_rollback='-h --help --dry-run --reason --wait --timeout'
  cmds_generation_show='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty'
  cmds_health='manager'
  cmds_health_manager='delete drain list resume show'
  cmds_health_manager_delete='-h --help --dry-run --reason --wait --timeout'
  cmds_health_manager_drain='-h --help --dry-run --reason --wait --timeout --self'
  cmds_health_manager_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_health_manager_resume='-h --help --dry-run --reason --wait --timeout --self'
  cmds_health_manager_show='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty --self'
  cmds_help='-h --help'
  cmds_host='drain hold list release'
  cmds_host_drain='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --mode --canaries --parallel --parallel-per-az --rate-per-hour --max-failures --watch-time --windows --wait --interval --timeout --long --limit --marker --dry-run --reason --project --tag --loadbalancer'
  cmds_host_hold='-h --help --dry-run --reason --until'
  cmds_host_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_host_release='-h --help --dry-run --reason'
  cmds_image='check clone exclusion leaks list replace replacement restore rollout'
  cmds_image_check='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --limit --marker'
  cmds_image_clone='back check create list retire switch'
  cmds_image_clone_back='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty --os-cloud --delete --dry-run'
  cmds_image_clone_check='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --os-cloud --name --without-floating-ip --leave-out --owner-is-stopped'
  cmds_image_clone_create='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty --os-cloud --name --without-floating-ip --leave-out --owner-is-stopped --timeout --dry-run'
  cmds_image_clone_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --os-cloud --long --limit --marker'
  cmds_image_clone_retire='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty --os-cloud --timeout --without-floating-ip --dry-run'
  cmds_image_clone_switch='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty --os-cloud --timeout --allow-differences --dry-run'
  cmds_image_exclusion='add list remove'
  cmds_image_exclusion_add='-h --help --dry-run --reason --for'
  cmds_image_exclusion_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_image_exclusion_remove='-h --help --dry-run --reason'
  cmds_image_leaks='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker --older-than --delete --reason'
  cmds_image_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --outdated --project --tag --flavor --topology --availability-zone --ask-agents --limit --marker --long'
  cmds_image_replace='-h --help --mode --force --wait --interval --timeout --dry-run --reason'
  cmds_image_replacement='cancel list'
  cmds_image_replacement_cancel='-h --help --dry-run --reason --wait --timeout'
  cmds_image_replacement_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker --loadbalancer --rollout'
  cmds_image_restore='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --older-than --dry-run --reason'
  cmds_image_rollout='cancel list pause resume show start undo watch'
  cmds_image_rollout_cancel='-h --help --dry-run --reason --wait --timeout'
  cmds_image_rollout_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_image_rollout_pause='-h --help --dry-run --reason --wait --timeout'
  cmds_image_rollout_resume='-h --help --dry-run --reason --wait --timeout'
  cmds_image_rollout_show='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty'
  cmds_image_rollout_start='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --mode --canaries --parallel --parallel-per-az --rate-per-hour --max-failures --watch-time --windows --wait --interval --timeout --long --limit --marker --dry-run --reason --from-host --from-zone --balance --from-network --flavor --certificate-ends-within --built-before --project --tag --loadbalancer'
  cmds_image_rollout_undo='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --mode --canaries --parallel --parallel-per-az --rate-per-hour --max-failures --watch-time --windows --wait --interval --timeout --long --limit --marker --dry-run --reason'
  cmds_image_rollout_watch='-h --help --interval --timeout'
  cmds_network='delete ensure port show'
  cmds_network_delete='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --dry-run --reason'
  cmds_network_ensure='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty --adopt --dry-run --reason'
  cmds_network_port='delete ensure list plug show unplug'
  cmds_network_port_delete='-h --help --dry-run --reason --force'
  cmds_network_port_ensure='-h --help --dry-run --reason --binding-host'
  cmds_network_port_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_network_port_plug='-h --help --dry-run --reason --timeout'
  cmds_network_port_show='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty'
  cmds_network_port_unplug='-h --help --dry-run --reason'
  cmds_network_show='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty'
  cmds_order='list'
  cmds_order_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_resize='-h --help --mode --force --wait --interval --timeout --dry-run --reason --flavor --no-flavor'
  cmds_rollout='cancel list pause resume show start undo watch'
  cmds_rollout_cancel='-h --help --dry-run --reason --wait --timeout'
  cmds_rollout_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_rollout_pause='-h --help --dry-run --reason --wait --timeout'
  cmds_rollout_resume='-h --help --dry-run --reason --wait --timeout'
  cmds_rollout_show='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty'
  cmds_rollout_start='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --mode --canaries --parallel --parallel-per-az --rate-per-hour --max-failures --watch-time --windows --wait --interval --timeout --long --limit --marker --dry-run --reason --image --from-host --from-zone --balance --from-network --flavor --certificate-ends-within --built-before --project --tag --loadbalancer'
  cmds_rollout_undo='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --mode --canaries --parallel --parallel-per-az --rate-per-hour --max-failures --watch-time --windows --wait --interval --timeout --long --limit --marker --dry-run --reason'
  cmds_rollout_watch='-h --help --interval --timeout'
  cmds_sync='pause resume retry run status watch'
  cmds_sync_pause='-h --help --dry-run --reason --wait --timeout --for'
  cmds_sync_resume='-h --help --dry-run --reason --wait --timeout'
  cmds_sync_retry='-h --help --dry-run --reason --wait --timeout'
  cmds_sync_run='-h --help --dry-run --reason --wait --timeout --amphora --all'
  cmds_sync_status='-h --help -f --format -c --column --noindent --variable --prefix --max-width --fit-width --print-empty'
  cmds_sync_watch='-h --help --interval --timeout --follow'
  cmds_upgrade='check'
  cmds_upgrade_check='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --timeout'
  cmds_zone='drain list release'
  cmds_zone_drain='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --mode --canaries --parallel --parallel-per-az --rate-per-hour --max-failures --watch-time --windows --wait --interval --timeout --long --limit --marker --dry-run --reason --until --build-in --project --tag --loadbalancer'
  cmds_zone_list='-h --help -f --format -c --column --quote --noindent --max-width --fit-width --print-empty --sort-column --sort-ascending --sort-descending --long --limit --marker'
  cmds_zone_release='-h --help --dry-run --reason'

  dash=-
  underscore=_
  cmd=""
  words[0]=""
  completed="${cmds}"
  for var in "${words[@]:1}"
  do
    if [[ ${var} == -* ]] ; then
      break
    fi
    if [ -z "${cmd}" ] ; then
      proposed="${var}"
    else
      proposed="${cmd}_${var}"
    fi
    local i="cmds_${proposed}"
    i=${i//$dash/$underscore}
    local comp="${!i}"
    if [ -z "${comp}" ] ; then
      break
    fi
    if [[ ${comp} == -* ]] ; then
      if [[ ${cur} != -* ]] ; then
        completed=""
        break
      fi
    fi
    cmd="${proposed}"
    completed="${comp}"
  done

  if [ -z "${completed}" ] ; then
    COMPREPLY=( $( compgen -f -- "$cur" ) $( compgen -d -- "$cur" ) )
  else
    COMPREPLY=( $(compgen -W "${completed}" -- ${cur}) )
  fi
  return 0
}
complete -F _octavia_hmsync octavia-hmsync
